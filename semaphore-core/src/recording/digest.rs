//! A digest of the sent requests. A replay compares digests to check that it sends the same.

use crate::machine::Transmit;

/// FNV-1a, which is the same on every machine and in all versions. `None` if nothing is sent.
pub(crate) fn digest_of(transmits: &[Transmit]) -> Option<String> {
    if transmits.is_empty() {
        return None;
    }
    let mut digest = OFFSET;
    for Transmit { id, request } in transmits {
        add(&mut digest, &id.0.to_le_bytes());
        add(&mut digest, request.method().as_str().as_bytes());
        add(&mut digest, request.target().as_bytes());
        add(&mut digest, request.body());
        add(&mut digest, &[u8::MAX]);
    }
    Some(format!("{digest:016x}"))
}

fn add(digest: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *digest = (*digest ^ u64::from(*byte)).wrapping_mul(PRIME);
    }
}

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Method, Request};
    use crate::id::RequestId;

    fn transmit(id: u64, target: &str, body: &str) -> Transmit {
        let request = Request::new(Method::Put, target).with_body(body);
        let id = RequestId(id);
        Transmit { id, request }
    }

    #[test]
    fn whatever_differs_has_another_digest_and_nothing_has_none() {
        assert_eq!(digest_of(&[]), None);
        let one = digest_of(&[transmit(1, "/v1/txn", "a")]);
        assert_eq!(one, digest_of(&[transmit(1, "/v1/txn", "a")]));
        for other in [
            transmit(2, "/v1/txn", "a"),
            transmit(1, "/v1/kv", "a"),
            transmit(1, "/v1/txn", "b"),
        ] {
            assert_ne!(one, digest_of(&[other]));
        }
    }
}
