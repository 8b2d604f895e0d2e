//! The dependency tree has no tokio, whatever features are on.

use std::process::Command;

#[test]
fn no_feature_brings_tokio_into_the_tree() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "transport-ureq", "--all-features"])
        .args(["--edges", "normal,build", "--prefix", "none", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(tree.contains("ureq v") && tree.contains("smol v"), "{tree}");
    let tokio: Vec<_> = tree
        .lines()
        .filter(|line| line.contains("tokio") || line.starts_with("hyper"))
        .collect();
    assert!(tokio.is_empty(), "{tokio:?}");
}
