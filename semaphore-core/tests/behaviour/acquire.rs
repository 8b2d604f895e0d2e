//! Acquiring and releasing when nothing goes wrong.

use transport_mock::MockConsul;

use crate::support::*;

#[test]
fn a_free_slot_is_acquired_and_given_back() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        let permit = semaphore.acquire().await.expect("a free slot");
        assert!(permit.is_held());
        assert_eq!(holders(&world).len(), 1);
        permit.release().await.expect("released");
    });
    assert_nothing_left(&world);
}
