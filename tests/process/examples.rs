//! The programs of `examples/` do what they say.

use std::path::Path;

use crate::harness::{Home, finish};

#[test]
fn the_smallest_client_prints_what_the_agent_says() {
    let home = Home::new();
    std::fs::write(home.work().join("findme.txt"), "x").unwrap();
    // `cargo test` builds the examples beside the program; a run of this test alone does not.
    let example = Path::new(env!("CARGO_BIN_EXE_acpd")).with_file_name("examples/one_prompt");
    assert!(example.exists(), "run `cargo build --examples` first");
    let mut command = home.bare(example.to_str().unwrap());
    command.arg(env!("CARGO_BIN_EXE_acpd"));
    let output = finish(command);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("findme.txt") && said.contains("[end_turn]"), "{output:?}");
}
