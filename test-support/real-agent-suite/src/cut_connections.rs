//! Connections that break, before or after their answers were sent.

use std::sync::Arc;

use real_agent::{Agent, Proxy};
use semaphore_core::Semaphore;
use semaphore_core::sans_io::{Method, Request};

use crate::Backend;
use crate::contest::{Contended, both};
use crate::scene::{SHORT_TTL, Scene, session, wait_until};
use crate::wrappers::Tap;

pub fn holders_and_waiters_outlive_cut_connections(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let proxy = Proxy::start(agent.addr()).unwrap();
    let contended =
        both(backend, &agent).map(|it| it.contend([&proxy.url(), &proxy.url()], SHORT_TTL));
    for _ in 0..5 {
        let before = proxy.traffic().connections;
        proxy.cut();
        wait_until("all poll again", || {
            proxy.traffic().connections >= before + 4
        });
    }
    for Contended { contest, held, .. } in &contended {
        contest.assert_held_by(held);
    }
    contended.into_iter().for_each(Contended::hand_over);
    assert!(agent.client().sessions().unwrap().is_empty());
}

pub fn a_claim_whose_answer_is_lost_is_found_by_reading(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let proxy = Arc::new(Proxy::start(agent.addr()).unwrap());
    let scene = Scene::on(backend, &agent);
    let semaphore = silenced(&scene, &proxy, |body| body.contains("true"));
    let acquiring = scene.start_acquire(&semaphore);
    wait_until("the claim is applied", || scene.holders().len() == 1);
    lose_answers(&proxy);
    let permit = scene.finish(acquiring).unwrap();
    assert!(permit.is_held());
    assert_eq!(scene.holders(), [session(&permit)]);
    scene.release(permit);
    drop(semaphore);
    agent.assert_nothing_left(scene.prefix());
}

pub fn a_release_whose_answer_is_lost_is_found_by_reading(backend: &impl Backend) {
    let agent = Agent::start().unwrap();
    let proxy = Arc::new(Proxy::start(agent.addr()).unwrap());
    let scene = Scene::on(backend, &agent);
    let first_holder = Arc::new(std::sync::Mutex::new(false));
    let semaphore = silenced(&scene, &proxy, move |body| {
        // The record has no holders twice: when it is created, and after the release.
        let mut has_held = first_holder.lock().unwrap();
        *has_held |= body.contains("true");
        *has_held && !body.contains("true")
    });
    let permit = scene.acquire(&semaphore);
    let releasing = scene.start(permit.release());
    wait_until("the release is applied", || scene.holders().is_empty());
    lose_answers(&proxy);
    scene.finish(releasing).unwrap();
    drop(semaphore);
    agent.assert_nothing_left(scene.prefix());
}

/// A participant that loses one answer: the one to its first write of a record for which `is_it` is
/// true. The write itself goes through.
fn silenced<B: Backend>(
    scene: &Scene<'_, B>,
    proxy: &Arc<Proxy>,
    is_it: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> Semaphore {
    let adapter = scene.adapter_to(&proxy.url());
    let tell = {
        let proxy = Arc::clone(proxy);
        let done = std::sync::Once::new();
        move |request: &Request| {
            let is_record = request.method() == Method::Put && request.target().contains("/.lock?");
            if is_record && is_it(&String::from_utf8_lossy(request.body())) {
                done.call_once(|| proxy.silence_answers());
            }
        }
    };
    let transport = Arc::new(Tap::new(adapter.clone(), tell));
    scene
        .builder(1)
        .connect_parts(transport, Arc::new(adapter))
        .unwrap()
}

fn lose_answers(proxy: &Proxy) {
    proxy.cut();
    proxy.resume();
}
