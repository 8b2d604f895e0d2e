use crate::input::SessionOptions;
use crate::machine::process::tenancy::session::*;
use crate::transport::TransportError;

const ID: &str = "aaaaaaaa-0000-0000-0000-000000000000";

fn at(secs: u64) -> Instant {
    Instant::from_origin(Duration::from_secs(secs))
}

fn settings() -> SessionSettings {
    SessionSettings::new(SessionOptions::default())
}

/// Sends what is due at `sent`, and answers it at `answered`.
fn exchange(session: &mut Session, sent: u64, answered: u64, status: u16, body: &str) {
    let settings = settings();
    let mut rng = fastrand::Rng::with_seed(1);
    let (no, _) = session.transmit(at(sent), &settings).unwrap();
    let response = Response::new(status, body);
    session.handle(
        at(answered),
        no,
        Ok(&response),
        Belief::Confirmed,
        &settings,
        &mut rng,
    );
}

/// A renewal at `sent` with this answer, which the leader confirms at once.
fn renew(session: &mut Session, sent: u64, answered: u64, body: &str) {
    exchange(session, sent, answered, 200, body);
    exchange(session, answered, answered, 200, &info());
}

fn info() -> String {
    format!(r#"[{{"ID":"{ID}"}}]"#)
}

fn live() -> Session {
    let mut session = Session::new(&settings());
    exchange(&mut session, 100, 101, 200, &format!(r#"{{"ID":"{ID}"}}"#));
    session
}

fn deadline(session: &Session) -> Option<Instant> {
    session.lease().map(Lease::deadline)
}

/// Consul has removed the agent's node from its catalog, and restores it when the agent is in touch
/// again.
#[test]
fn an_agent_whose_node_is_not_registered_is_asked_again_unless_it_is_about_another_node() {
    let named = SessionOptions::default().with_node("elsewhere").unwrap();
    let named = SessionSettings::new(named);
    let mut far = settings();
    far.scope = far.scope.with_datacenter("dc2").unwrap();
    for (settings, is_permanent) in [(settings(), false), (named, true), (far, true)] {
        let mut session = Session::new(&settings);
        let mut rng = fastrand::Rng::with_seed(1);
        let (no, _) = session.transmit(at(100), &settings).unwrap();
        let text = "rpc error making call: Missing node registration";
        let refused = Response::new(500, text);
        session.handle(
            at(100),
            no,
            Ok(&refused),
            Belief::Confirmed,
            &settings,
            &mut rng,
        );
        let failure = session.failure().unwrap();
        assert_eq!(failure.is_permanent(), is_permanent, "{failure}");
        assert!(session.timeout().is_some_and(|due| due > at(100)));
    }
}

#[test]
fn its_lease_counts_from_when_the_request_was_sent() {
    let mut session = live();
    let half = Duration::from_millis(500);
    assert_eq!(deadline(&session), Some(at(113) + half));
    renew(&mut session, 105, 109, r#"[{"TTL":"15s"}]"#);
    assert_eq!(deadline(&session), Some(at(118) + half));
    assert_renews_after(&session, at(105), 15);
}

/// After a quarter to a third of the lease.
#[track_caller]
fn assert_renews_after(session: &Session, sent: Instant, lease: u64) {
    let lease = Duration::from_secs(lease);
    let due = session.timeout().unwrap();
    assert!(due >= sent + lease / 4 && due <= sent + lease / 3, "{due}");
}

#[test]
fn its_lease_takes_a_shorter_ttl_of_the_servers_over_and_no_longer_one() {
    let mut session = live();
    renew(&mut session, 105, 105, r#"[{"TTL":"12s"}]"#);
    assert_eq!(
        deadline(&session),
        Some(at(105) + Duration::from_millis(10_800))
    );
    assert_renews_after(&session, at(105), 12);
    // Its lock delay equals the TTL that it was created with.
    renew(&mut session, 109, 109, r#"[{"TTL":"30s"}]"#);
    assert_eq!(
        deadline(&session),
        Some(at(109) + Duration::from_millis(13_500))
    );
}

#[test]
fn one_of_ours_has_a_ttl_whatever_a_renewal_is_answered() {
    for body in ["[{}]", r#"[{"TTL":""}]"#, r#"[{"TTL":"0s"}]"#] {
        let mut session = live();
        renew(&mut session, 105, 105, body);
        let half = Duration::from_millis(500);
        assert_eq!(deadline(&session), Some(at(118) + half), "{body}");
        assert_renews_after(&session, at(105), 15);
    }
}

#[test]
fn a_renewal_that_fails_leaves_the_lease_and_is_tried_again() {
    let mut session = live();
    let before = deadline(&session);
    exchange(&mut session, 105, 106, 500, "No cluster leader");
    assert_eq!(deadline(&session), before);
    assert!(session.failure().is_some());
    let due = session.timeout().unwrap();
    assert!(due > at(106) && due <= at(107), "{due}");
    exchange(&mut session, 107, 107, 200, r#"[{"TTL":"15s"}]"#);
    assert!(session.failure().is_none());
}

#[test]
fn only_consuls_404_ends_it() {
    let mut session = live();
    exchange(&mut session, 105, 105, 404, "<html>not found</html>");
    assert!(!session.is_gone());
    exchange(&mut session, 110, 110, 404, "Session id 'x' not found");
    exchange(&mut session, 110, 110, 200, "[]");
    assert!(session.is_gone());
    assert_eq!(session.timeout(), None);
}

#[test]
fn a_404_that_the_leader_does_not_confirm_leaves_it_and_is_tried_again() {
    let mut session = live();
    let before = deadline(&session);
    exchange(&mut session, 105, 105, 404, "Session id 'x' not found");
    assert!(!session.is_gone());
    // It is sent at once, and again if there is no answer.
    assert_eq!(session.timeout(), Some(Instant::ORIGIN));
    exchange(&mut session, 105, 105, 500, "No cluster leader");
    assert!(session.failure().is_some());
    let body = format!(r#"[{{"ID":"{ID}","TTL":"15s"}}]"#);
    exchange(&mut session, 107, 107, 200, &body);
    assert_eq!(deadline(&session), before);
    let due = session.timeout().unwrap();
    assert!(due > at(107) && due <= at(108), "{due}");
    renew(&mut session, 108, 108, r#"[{"TTL":"15s"}]"#);
    assert!(deadline(&session) > before);
    assert_renews_after(&session, at(108), 15);
}

/// A frozen leader wakes after it was replaced, and for a moment renews sessions from its memory.
#[test]
fn a_renewal_is_believed_once_a_leader_confirms_itself() {
    let mut session = live();
    let before = deadline(&session);
    exchange(&mut session, 105, 106, 200, r#"[{"TTL":"15s"}]"#);
    assert_eq!(deadline(&session), before);
    assert_eq!(session.timeout(), Some(Instant::ORIGIN), "asked at once");
    exchange(&mut session, 106, 106, 500, "No cluster leader");
    assert_eq!(deadline(&session), before);
    let due = session.timeout().unwrap();
    assert!(due > at(106) && due <= at(107), "{due}");
    let mut gone = session.clone();
    exchange(&mut session, 107, 107, 200, &info());
    let half = Duration::from_millis(500);
    assert_eq!(deadline(&session), Some(at(118) + half), "from its sending");
    // The next leader knows no such session.
    exchange(&mut gone, 107, 107, 200, "[]");
    assert_eq!(deadline(&gone), before);
    exchange(&mut gone, 108, 108, 404, "Session id 'x' not found");
    exchange(&mut gone, 108, 108, 200, "[]");
    assert!(gone.is_gone());
}

/// A token that loses its permissions is not shown the session, and most agents do not say that
/// they left it out. A renewal says whether it exists.
#[test]
fn an_absence_ends_it_only_after_a_renewal_has_said_the_same() {
    let renewed = r#"[{"TTL":"15s"}]"#;
    let mut session = live();
    let before = deadline(&session);
    exchange(&mut session, 105, 105, 200, renewed);
    exchange(&mut session, 106, 106, 200, "[]");
    assert!(!session.is_gone());
    assert_eq!(deadline(&session), before, "nothing has confirmed it");
    let due = session.timeout().unwrap();
    assert!(due > at(106) && due <= at(107), "{due}");
    // The permissions are back.
    let mut back = session.clone();
    renew(&mut back, 108, 108, renewed);
    assert!(deadline(&back) > before);
    // It has ended.
    exchange(&mut session, 108, 108, 404, "Session id 'x' not found");
    exchange(&mut session, 108, 108, 200, "[]");
    assert!(session.is_gone());
}

/// If answers are slow, several of each are under way.
#[test]
fn a_renewal_counts_once_it_is_confirmed_also_if_a_later_one_is_answered_before() {
    let settings = settings();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut session = live();
    session.hold(at(100));
    let send = |session: &mut Session, now| session.transmit(now, &settings).unwrap().0;
    let mut answer = |session: &mut Session, now, no, body: &str| {
        let response = Response::new(200, body);
        session.handle(
            at(now),
            no,
            Ok(&response),
            Belief::Confirmed,
            &self::settings(),
            &mut rng,
        );
    };
    let first = send(&mut session, at(102));
    answer(&mut session, 103, first, r#"[{"TTL":"15s"}]"#);
    let inquiry = send(&mut session, at(103));
    let second = send(&mut session, at(104));
    answer(&mut session, 105, second, r#"[{"TTL":"15s"}]"#);
    answer(&mut session, 106, inquiry, &info());
    let half = Duration::from_millis(500);
    assert_eq!(deadline(&session), Some(at(115) + half), "the first");
    let inquiry = send(&mut session, at(106));
    answer(&mut session, 107, inquiry, &info());
    assert_eq!(deadline(&session), Some(at(117) + half), "the second");
}

#[test]
fn a_404_that_may_not_be_confirmed_ends_it() {
    let mut session = live();
    exchange(&mut session, 105, 105, 404, "Session id 'x' not found");
    exchange(&mut session, 105, 105, 403, "Permission denied");
    assert!(session.is_gone());
}

/// A session that was left out of an answer exists: a leader that has not applied its log answered
/// the renewal.
#[test]
fn a_404_of_one_that_may_not_be_seen_ends_nothing() {
    let settings = settings();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut session = live();
    exchange(&mut session, 105, 105, 404, "Session id 'x' not found");
    let left_out = Response::new(200, "[]");
    let left_out = left_out.with_header("X-Consul-Results-Filtered-By-ACLs", "true");
    let (no, _) = session.transmit(at(105), &settings).unwrap();
    session.handle(
        at(105),
        no,
        Ok(&left_out),
        Belief::Confirmed,
        &settings,
        &mut rng,
    );
    assert!(!session.is_gone());
    exchange(&mut session, 106, 106, 200, &info());
    assert!(!session.is_gone());
}

#[test]
fn what_no_renewal_says_of_a_missing_one_is_not_looked_into() {
    let missing = r#"invalid session "x""#;
    let mut session = Session::new(&settings());
    exchange(&mut session, 100, 100, 500, missing);
    assert!(session.is_gone());
    let mut session = live();
    session.end();
    exchange(&mut session, 105, 105, 500, missing);
    assert!(session.has_ended());
}

#[test]
fn whoever_only_waits_renews_without_asking_again_unless_the_lease_was_over() {
    let settings = settings();
    let mut rng = fastrand::Rng::with_seed(1);
    for (sent, is_asked_again) in [(105, false), (114, true)] {
        let mut session = live();
        let (no, _) = session.transmit(at(sent), &settings).unwrap();
        let response = Response::new(200, r#"[{"TTL":"15s"}]"#);
        session.handle(
            at(sent),
            no,
            Ok(&response),
            Belief::Answered,
            &settings,
            &mut rng,
        );
        assert_eq!(session.timeout() == Some(Instant::ORIGIN), is_asked_again);
    }
}

/// For example, a token that is missing for a moment.
#[test]
fn a_renewal_that_may_not_be_confirmed_is_asked_for_again_and_ends_nothing() {
    let denied = Response::new(403, "ACL not found");
    let left_out = Response::new(200, "[]");
    let left_out = left_out.with_header("X-Consul-Results-Filtered-By-ACLs", "true");
    for answer in [denied, left_out] {
        let mut session = live();
        let before = deadline(&session);
        exchange(&mut session, 105, 105, 200, r#"[{"TTL":"15s"}]"#);
        let settings = settings();
        let mut rng = fastrand::Rng::with_seed(1);
        let (no, _) = session.transmit(at(105), &settings).unwrap();
        session.handle(
            at(105),
            no,
            Ok(&answer),
            Belief::Confirmed,
            &settings,
            &mut rng,
        );
        assert!(!session.is_gone());
        assert!(session.failure().is_some());
        assert_eq!(deadline(&session), before);
        let due = session.timeout().unwrap();
        assert!(due > at(105) && due <= at(106), "{due}");
        exchange(&mut session, 106, 106, 200, &info());
        assert!(deadline(&session) > before);
    }
}

#[test]
fn its_destruction_is_repeated_until_it_is_answered() {
    let settings = settings();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut session = live();
    session.end();
    let (no, _) = session.transmit(at(102), &settings).unwrap();
    let timeout = TransportError::new(TransportErrorKind::Timeout);
    let lost = Err(RequestError::Transport(timeout));
    session.handle(at(105), no, lost, Belief::Confirmed, &settings, &mut rng);
    assert!(!session.has_ended());
    exchange(&mut session, 106, 106, 200, "true");
    assert!(session.has_ended());
    assert!(session.failure().is_none());
}

/// Answers that take a third of the TTL, after prompt ones: the first renewal is given up, and a
/// renewal and its confirmation one after the other would take longer than the lease.
#[test]
fn a_waiter_whose_renewal_is_given_up_sends_the_next_at_once_with_what_must_confirm_it() {
    let settings = settings();
    let renewal = format!("/v1/session/renew/{ID}");
    let inquiry = format!("/v1/session/info/{ID}");
    for (belief, expected) in [
        (Belief::Answered, vec![&renewal]),
        (Belief::Confirmed, vec![&renewal, &inquiry]),
    ] {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut session = live();
        let (first, _) = session.transmit(at(105), &settings).unwrap();
        let timeout = TransportError::new(TransportErrorKind::Timeout);
        let lost = Err(RequestError::Transport(timeout));
        session.handle(at(108), first, lost, belief, &settings, &mut rng);
        let mut sent = Vec::new();
        while let Some((_, request)) = session.transmit(at(108), &settings) {
            sent.push(request.path().to_owned());
        }
        assert_eq!(sent.iter().collect::<Vec<_>>(), expected);
        // An agent without a leader may hold both: the next one is not sent at once.
        assert_eq!(session.timeout(), Some(at(114)));
    }
}

/// Otherwise the question that has to wait would be sent in the place of the renewal, again and
/// again.
#[test]
fn a_renewal_that_is_due_is_sent_while_the_question_to_the_leader_has_to_wait() {
    let settings = settings();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut session = live();
    session.hold(at(100));
    let mut fail = |session: &mut Session, now, no, kind| {
        let error = RequestError::Transport(TransportError::new(kind));
        session.handle(
            at(now),
            no,
            Err(error),
            Belief::Confirmed,
            &self::settings(),
            &mut rng,
        );
    };
    let (renewal, _) = session.transmit(at(102), &settings).unwrap();
    fail(&mut session, 105, renewal, TransportErrorKind::Timeout);
    let mut sent = Vec::new();
    while let Some((no, request)) = session.transmit(at(105), &settings) {
        sent.push(request.path().to_owned());
        fail(&mut session, 105, no, TransportErrorKind::NotSent);
        assert!(sent.len() < 5, "{sent:?}");
    }
    assert!(
        sent.contains(&format!("/v1/session/renew/{ID}")),
        "{sent:?}"
    );
}

/// After a cut, the answer to a new renewal may come together with the end of an old question.
#[test]
fn the_leader_is_asked_at_once_about_a_renewal_although_an_earlier_question_has_failed() {
    let settings = settings();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut session = live();
    let mut handle = |session: &mut Session, no, answer: Result<&Response, RequestError>| {
        let settings = self::settings();
        session.handle(at(110), no, answer, Belief::Confirmed, &settings, &mut rng);
    };
    exchange(&mut session, 105, 105, 200, r#"[{"TTL":"15s"}]"#);
    let (question, _) = session.transmit(at(105), &settings).unwrap();
    let (renewal, _) = session.transmit(at(110), &settings).unwrap();
    let timeout = TransportError::new(TransportErrorKind::Timeout);
    handle(
        &mut session,
        question,
        Err(RequestError::Transport(timeout)),
    );
    handle(
        &mut session,
        renewal,
        Ok(&Response::new(200, r#"[{"TTL":"15s"}]"#)),
    );
    let (_, question) = session.transmit(at(110), &settings).unwrap();
    assert_eq!(question.path(), format!("/v1/session/info/{ID}"));
}

/// What is lost in a cut is given up when all is well again.
#[test]
fn the_end_of_an_old_request_says_nothing_once_a_later_one_was_answered() {
    let settings = settings();
    let mut session = live();
    session.hold(at(100));
    let (lost, _) = session.transmit(at(105), &settings).unwrap();
    exchange(&mut session, 110, 110, 200, r#"[{"TTL":"15s"}]"#);
    exchange(&mut session, 110, 110, 200, &info());
    let due = session.timeout();
    assert!(due.is_some_and(|due| due <= at(115)), "{due:?}");

    let timeout = TransportError::new(TransportErrorKind::Timeout);
    session.handle(
        at(111),
        lost,
        Err(RequestError::Transport(timeout)),
        Belief::Confirmed,
        &settings,
        &mut fastrand::Rng::with_seed(1),
    );
    assert_eq!(session.timeout(), due);
    assert!(session.failure().is_none());
}
