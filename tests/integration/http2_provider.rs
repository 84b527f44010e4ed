//! A provider that speaks HTTP/2 over TLS, as those on the internet do: Node's own server.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::provider::TestCertificate;

use crate::harness::{Home, Lines};

/// Every kind of escape, and characters of two to four bytes.
const LINE: &str = "let text = \"C:\\dir\n\";\t// ä€😀 \u{1}\u{1f}\r\n";

#[test]
fn a_long_prompt_arrives_whole_over_http2_after_a_refusal() {
    let home = Home::new();
    let TestCertificate { authority, certificate, key } = TestCertificate::issue();
    let [authority_file, certificate_file, key_file] =
        ["authority.pem", "certificate.pem", "key.pem"].map(|name| home.path().join(name));
    fs::write(&authority_file, authority).unwrap();
    fs::write(&certificate_file, certificate.pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/http2_provider.mjs");
    let mut node = Command::new("node");
    node.arg(script).args([&key_file, &certificate_file]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = node.spawn().unwrap();
    let lines = Lines::of(node.stdout.take().unwrap());
    let address = lines.next();
    home.configure(&format!(
        "[models]\ndefault = \"far/far\"\n[models.local]\nprobe = false\n[network]\ncertificates = [{authority_file:?}]\n\
         [models.providers.far]\nkind = \"openai\"\nbase_url = \"{address}\"\nkey = {{ command = \"echo sk-of-http2-0123456789\" }}\n\
         [[models.providers.far.models]]\nid = \"far\"\nwindow = 10000000\n"
    ));

    let mut bridge = home.bridge();
    let session = bridge.open(&home.work());
    let text = LINE.repeat(30_000);
    let answer = bridge.prompt(&session, &text);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(bridge.agent_text(), "Received.");
    let arrived: Value = serde_json::from_str(&lines.next()).unwrap();
    assert!(arrived["arrived"].as_u64().unwrap() > 1_000_000, "it is long enough to be sent in frames");
    assert_eq!(arrived["announced"], arrived["arrived"].to_string());
    let texts = arrived["texts"].as_array().unwrap();
    assert!(texts.iter().any(|sent| sent.as_str().unwrap().starts_with(&text)), "the prompt arrives unchanged");
    drop(node.stdin.take());
    assert!(node.wait().unwrap().success());
}
