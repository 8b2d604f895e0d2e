//! A mangled Consul for a [`Participant`]: see `drive`.

use semaphore_core::sans_io::{
    CommandId, Grant, Instant, Method, Participant, Request, Response, SessionOptions, Settings,
    Value,
};
use semaphore_core::{Error, Prefix, SessionId};
use transport_mock::consul::Consul;

use crate::choices::Choices;
use crate::drive::drive;
use crate::oracle::Oracle;
use crate::subject::{MOST_UNANSWERED, Subject, Wait, scope};
use crate::{PREFIX, mangle};

/// Plays the input.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let (contender, seed) = Contender::drawn(&mut choices);
    drive(contender, seed, &mut choices);
}

/// A participant with its oracle.
pub(crate) struct Contender {
    participant: Participant,
    oracle: Oracle,
}

impl Contender {
    pub(crate) fn new(settings: Settings, seed: u64) -> Self {
        Self {
            participant: Participant::new(settings.with_scope(scope()), seed),
            oracle: Oracle::new(),
        }
    }

    fn drawn(choices: &mut Choices<'_>) -> (Self, u64) {
        let prefix = Prefix::new(PREFIX).expect("a prefix");
        let limit = choices.pick(&LIMITS);
        let mut settings = Settings::new(prefix, limit)
            .expect("a limit")
            .with_limit_adopted(choices.flag())
            .with_value(Value::new("node-1").expect("a small value"));
        if choices.once_in(4) {
            let options = SessionOptions::new().with_ttl(SessionOptions::MAX_TTL);
            settings = settings.with_session_options(options.expect("a TTL"));
        }
        let seed = choices.number() & 0xff;
        (Self::new(settings, seed), seed)
    }
}

impl Subject for Contender {
    type Machine = Participant;

    /// Eight sessions are created or destroyed at once. One step or read, and the poll.
    const MOST_OPEN: usize = 8 + MOST_UNANSWERED + 2;

    fn machine(&self) -> &Participant {
        &self.participant
    }

    fn machine_mut(&mut self) -> &mut Participant {
        &mut self.participant
    }

    fn check(&mut self, _: Instant, request: &Request) {
        self.oracle.check_participant(request);
    }

    fn show(&mut self, request: &Request, response: &Response) {
        self.oracle.show(request, response);
    }

    fn granted(&mut self, grant: &Grant) -> Vec<SessionId> {
        let sequencers = grant.sequencers.iter();
        sequencers.map(|it| it.session.clone()).collect()
    }

    fn ask(&mut self, now: Instant, permits: u32, wait: Wait) -> Result<CommandId, Error> {
        let asked: Result<CommandId, _> = match wait {
            Wait::Not => self.participant.try_acquire(now, permits),
            Wait::Until(deadline) => self.participant.acquire(now, permits, Some(deadline)),
            Wait::Forever => self.participant.acquire(now, permits, None),
        };
        asked
    }

    fn change(
        &mut self,
        now: Instant,
        choices: &mut Choices<'_>,
        _: Option<CommandId>,
    ) -> Option<CommandId> {
        let limit = choices.pick(&[1, 2, 5, 0, u32::MAX]);
        let _ = self.participant.set_limit(now, limit);
        None
    }

    fn disturb(way: usize, now: Instant, consul: &mut Consul, choices: &mut Choices<'_>) {
        let mut put = |name: &str, body: Vec<u8>| {
            let target = KEYS.to_owned() + &name.replace(' ', "%20");
            consul.submit(now, &Request::new(Method::Put, target).with_body(body));
        };
        match way {
            0 => {
                let value = mangle::record(choices);
                let flags = choices.pick(&[semaphore_core::sans_io::api::SEMAPHORE_FLAGS, 0, 1]);
                put(&format!(".lock?flags={flags}"), value);
            }
            1 => put(".lock", choices.bytes(64).to_vec()),
            2 => Self::tidy(now, consul),
            _ => put(choices.pick(mangle::SESSIONS), Vec::new()),
        }
    }

    fn tidy(now: Instant, consul: &mut Consul) {
        let delete = Request::new(Method::Delete, KEYS.to_owned() + ".lock");
        consul.submit(now, &delete);
    }
}

const LIMITS: [u32; 4] = [1, 2, 3, 1_000];

const KEYS: &str = "/v1/kv/service/db/";
