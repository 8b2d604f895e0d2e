//! The body of a transaction, as Go decodes it.

use base64::Engine;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use semaphore_core::adapter::Response;
use serde_json::{Map, Value};

use super::answer;
use super::call::Call;
use super::go_json::{self, Field};
use super::kv::MAX_VALUE;
use super::profile::{Edition, Profile};
use super::store::Entry;
use super::tenancy::Tenancy;
use super::txn::{KeyOperation, Operation};
use super::txn_node::NodeOperation;

/// Go ignores bits after the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The operations, or the answer to a bad body or key.
pub(super) fn parse(call: &Call) -> Result<Vec<Operation>, Response> {
    let (body, release) = (call.body, call.release());
    if body.len() > MAX_VALUE {
        return Err(answer::text(
            413,
            format!(
                "Request body({} bytes) too large, max size: {MAX_VALUE} bytes",
                body.len()
            ),
        ));
    }
    let unparsable = |fault: String| answer::bad_request(format!("Failed to parse body: {fault}"));
    let operations = match go_json::decode(body).map_err(unparsable)? {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        _ => return Err(unparsable("it is no list".to_owned())),
    };
    let count = operations.len();
    let operations = operations
        .iter()
        .map(|operation| parse_one(call.profile, operation).map_err(unparsable))
        .collect::<Result<Vec<_>, _>>()?;
    let most = release.most_operations;
    if count > most {
        return Err(answer::text(
            413,
            format!("Transaction contains too many operations ({count} > {most})"),
        ));
    }
    let operations: Vec<_> = operations.into_iter().flatten().collect();
    match operations.iter().find_map(|it| it.fault_of_key(release)) {
        Some(fault) => Err(answer::bad_request(format!(
            "Invalid key in transaction: {fault}"
        ))),
        None => Ok(operations),
    }
}

/// One operation of the array, or `None` if the agent ignores it.
fn parse_one(profile: Profile, operation: &Value) -> Result<Option<Operation>, String> {
    let members = match operation {
        Value::Object(members) => members,
        Value::Null => return Ok(None),
        _ => return Err("an operation is no object".to_owned()),
    };
    refuse_unknown(members, &["KV", "Node", "Service", "Check"])?;
    let fields = match go_json::member(members, "KV") {
        None | Some(Value::Null) => {
            return Ok(NodeOperation::parse(members)?.map(Operation::Node));
        }
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(Field::new(members, "KV").mismatch("an object")),
    };
    let mut known = vec![
        "Verb",
        "Key",
        "Value",
        "Flags",
        "Index",
        "Session",
        "Namespace",
    ];
    known.extend(profile.rules().knows_partitions.then_some("Partition"));
    refuse_unknown(fields, &known)?;
    let field = |name| Field::new(fields, name);
    let value = match go_json::member(fields, "Value") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(value)) => decode_base64(value)?,
        Some(Value::Array(bytes)) => bytes
            .iter()
            .map(|byte| decode_byte(byte, &field("Value")))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(field("Value").mismatch("base64")),
    };
    let key = field("Key").text()?.unwrap_or_default();
    let flags = field("Flags").number()?.unwrap_or_default();
    let mut entry = Entry::new(key.as_bytes(), value, flags);
    entry.session = field("Session").text()?.unwrap_or_default();
    let (namespace, partition) = (field("Namespace").text()?, field("Partition").text()?);
    let tenancy = match profile.edition {
        Edition::Enterprise => Tenancy::of(partition.as_deref(), namespace.as_deref()),
        Edition::Community => Tenancy::default(),
    };
    Ok(Some(Operation::Key(KeyOperation {
        tenancy,
        verb: field("Verb").text()?.unwrap_or_default(),
        entry,
        index: field("Index").number()?.unwrap_or_default(),
    })))
}

/// Go also accepts a value as an array of numbers.
fn decode_byte(byte: &Value, field: &Field<'_>) -> Result<u8, String> {
    if byte.is_null() {
        return Ok(0);
    }
    let number = byte.as_u64();
    let byte = number.and_then(|number| u8::try_from(number).ok());
    byte.ok_or_else(|| field.mismatch("a list of bytes"))
}

fn refuse_unknown(members: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    let is_known = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
    match members.keys().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(format!("unknown field {name:?}")),
    }
}

/// Go ignores line breaks.
fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let text = text.replace(['\r', '\n'], "");
    BASE64.decode(&text).map_err(|fault| fault.to_string())
}
