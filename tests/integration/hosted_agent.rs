//! An agent that is built on the TypeScript SDK answers a session.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::installed::installed;
use crate::second_version::{Stopped, at_home};

#[test]
fn an_agent_built_on_the_typescript_sdk_answers_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::create_dir_all(home.join(".config/acpd")).unwrap();
    fs::DirBuilder::new().mode(0o700).create(home.join("run")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/hosted_agent.mjs");
    let sdk = installed("node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js");
    let config =
        format!("[agents]\ndefault = \"sdk\"\n[agents.sdk]\ncommand = \"node\"\nargs = [{script:?}, {sdk:?}]\n");
    fs::write(home.join(".config/acpd/config.toml"), config).unwrap();
    let _stopped = Stopped(home);
    let ask = |arguments: &[&str]| {
        let mut command = at_home(home, env!("CARGO_BIN_EXE_acpd"));
        let output = command.current_dir(home).arg("ask").args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let said = ask(&["--allow", "edit it"]);
    assert!(said.contains("I want to edit.") && said.contains("You said do-it."), "{said}");
    let said = ask(&["edit it"]);
    assert!(said.contains("You said leave-it."), "{said}");
}
