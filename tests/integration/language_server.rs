//! A third-party language server: pyright, which checks Python.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use serde_json::json;

use crate::installed::installed;
use crate::mcp_fixture::{McpFixture, TEST_TIMEOUT, calls, has};

/// The path of node, which runs pyright.
fn node() -> String {
    let path = std::env::var("PATH").unwrap();
    let found = path.split(':').map(|folder| format!("{folder}/node")).find(|program| fs::metadata(program).is_ok());
    found.expect("node is installed")
}

#[actix::test]
async fn pyright_reports_the_errors_that_an_edit_causes() {
    let script = installed("node_modules/pyright/langserver.index.js");
    let broken = "from shapes import area\n\nprint(area(2, 3))\nprint(perimeter(2, 3))\n";
    let answers = calls(&[
        (
            "write_file",
            json!({ "path": "shapes.py", "content": "def area(a: int, b: int) -> int:\n    return a * b\n" }),
        ),
        ("write_file", json!({ "path": "main.py", "content": broken })),
        ("diagnostics", json!({ "path": "shapes.py" })),
    ]);
    let mut at = McpFixture::with(json!({}), answers, |settings, folder| {
        let server = lsp::LanguageServer {
            command: node(),
            args: vec![script.to_str().unwrap().to_owned(), "--stdio".to_owned()],
            files: BTreeMap::from([("py".to_owned(), "python".to_owned())]),
            enabled: true,
        };
        settings.diagnostics = Arc::new(lsp::Settings {
            enabled: true,
            wait_ms: TEST_TIMEOUT.as_millis().try_into().unwrap(),
            start_seconds: TEST_TIMEOUT.as_secs(),
            idle_minutes: 10,
            servers: BTreeMap::from([("pyright".to_owned(), server)]),
            trusted: vec![folder.to_owned()],
        });
    })
    .await;
    let session = at.open(json!([])).await;
    let transcript = at.say(&session, "write two files").await;
    has(&transcript, "[pyright reports new errors after this change:]");
    has(&transcript, "main.py:4:7: error: \\\"perimeter\\\" is not defined [reportUndefinedVariable]");
    has(&transcript, "shapes.py has no errors or warnings.");
    at.zed.call("session/close", json!({ "sessionId": session })).await;
}
