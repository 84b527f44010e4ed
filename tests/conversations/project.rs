//! A real folder with the real tools, and an editor with a session in it.

use std::fs;
use std::sync::Arc;

use domain::tool::Toolbox;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Editor, Scene, Step};
use tools::Registry;

pub(crate) struct Project {
    pub(crate) folder: TempDir,
    pub(crate) scene: Scene,
    pub(crate) zed: Editor,
    pub(crate) session: String,
}

impl Project {
    /// Creates a project. The editor offers the capabilities that the test names. Shell commands
    /// run under the real program, for which the clock must advance.
    pub(crate) async fn new(
        offers: Value,
        files: &[(&str, &str)],
        answers: Vec<Vec<Step>>,
        adjust: impl FnOnce(&mut tools::ToolSettings),
    ) -> Self {
        Self::with_tools(offers, files, answers, adjust, |settings| Arc::new(Registry::new(settings))).await
    }

    /// The same with a wrapper between the session and its tools.
    pub(crate) async fn with_tools(
        offers: Value,
        files: &[(&str, &str)],
        answers: Vec<Vec<Step>>,
        adjust: impl FnOnce(&mut tools::ToolSettings),
        tools: impl FnOnce(tools::ToolSettings) -> Arc<dyn Toolbox>,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut settings = tools::ToolSettings::new(env!("CARGO_BIN_EXE_acpd"));
        adjust(&mut settings);
        let scene = Scene::equipped(answers, tools(settings));
        let mut zed = scene.client("zed");
        zed.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": offers })).await;
        let opened = zed.call("session/new", json!({ "cwd": folder.path(), "mcpServers": [] })).await;
        zed.update("available_commands_update").await;
        let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
        scene.transcript.take();
        Self { folder, scene, zed, session }
    }

    pub(crate) async fn configure(&mut self, option: &str, value: &str) {
        let params = json!({ "sessionId": self.session, "configId": option, "value": value });
        self.zed.call("session/set_config_option", params).await;
        self.scene.transcript.take();
    }

    /// Attaches another editor to the session.
    pub(crate) async fn watcher(&mut self, name: &str) -> Editor {
        let mut editor = self.scene.editor(name).await;
        let load = json!({ "sessionId": self.session, "cwd": self.folder.path(), "mcpServers": [] });
        editor.call("session/load", load).await;
        self.scene.transcript.take();
        editor
    }

    /// Refuses a request of the agent to the editor.
    pub(crate) async fn refuse(&mut self, request: &Value, message: &str) {
        let error = json!({ "code": -32603, "message": message });
        self.zed.send(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    pub(crate) fn transcript(&self) -> String {
        self.scene.transcript.take().replace(&self.folder.path().display().to_string(), "DIR")
    }
}
