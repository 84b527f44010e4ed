//! The TypeScript SDK's client of version 2 drives a conversation through the bridge.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use testkit::answers::{AnswerPart, Dialect, ModelAnswer};
use testkit::provider::{Action, Reply, Server};

use crate::installed::installed;

/// A command in its own home.
pub(crate) fn at_home(home: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home);
    command.env("ACPD_SOCKET", home.join("run/acpd.sock")).env("FAKE_KEY", "sk-typescript-0123456789");
    command
}

/// Stops the daemon at the end of the test.
pub(crate) struct Stopped<'a>(pub(crate) &'a Path);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let _ = at_home(self.0, env!("CARGO_BIN_EXE_acpd")).args(["ctl", "stop"]).output();
    }
}

#[test]
fn the_typescript_sdk_of_version_2_works_with_the_daemon() {
    let serve = json!({ "command": "echo up; sleep 1000", "background": true });
    let waiting = ModelAnswer::text("I wait for something.").sse(Dialect::Chat);
    let server = Server::script(vec![
        Reply::stream(&[&ModelAnswer::new(vec![AnswerPart::Call("bash", serve)]).sse(Dialect::Chat)]),
        Reply::stream(&[&ModelAnswer::text("Started.").sse(Dialect::Chat)]),
        Reply::begun(&[&waiting[..waiting.len() / 2]]).then(Action::UntilClosed),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::create_dir_all(home.join(".config/acpd")).unwrap();
    fs::create_dir(home.join("work")).unwrap();
    fs::DirBuilder::new().mode(0o700).create(home.join("run")).unwrap();
    let config = format!(
        "[models]\ndefault = \"fake/fake\"\n[models.local]\nprobe = false\n\
         [models.providers.fake]\nkind = \"openai\"\nbase_url = \"{}\"\nkey = {{ env = \"FAKE_KEY\" }}\n\
         [[models.providers.fake.models]]\nid = \"fake\"\nwindow = 100000\n",
        server.address
    );
    fs::write(home.join(".config/acpd/config.toml"), config).unwrap();
    let _stopped = Stopped(home);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/second_version.mjs");
    let sdk = installed("node_modules/@agentclientprotocol/sdk/dist/v2/stable/acp.js");
    let talk =
        at_home(home, "node").arg(script).arg(sdk).arg(env!("CARGO_BIN_EXE_acpd")).arg(home.join("work")).output();
    let talk = talk.unwrap();
    let said = String::from_utf8_lossy(&talk.stdout);
    assert!(talk.status.success() && said.contains("done"), "{said}\n{}", String::from_utf8_lossy(&talk.stderr));
}
