//! A test scene: real actors with a scripted model, scripted tools, a history in memory and a
//! paused clock.

use std::path::PathBuf;
use std::sync::Arc;

use acpd_actors::{Peer, Ports, Runtime, RuntimeSettings, Transport};
use actix::ArbiterHandle;
use domain::conversation::{Message, Part};
use domain::history::History;
use domain::hosted::NoAgents;
use domain::instructions::{Instructions, Workspace};
use domain::model::{Catalogue, Delta, Model, ModelError, ModelInfo, ModelRequest};
use domain::tool::Toolbox;
use domain::worktree::NoWorktrees;
use domain::{Content, Environment, FolderError, Folders, ModelId, Usage};
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::io::DuplexStream;

use crate::accounts::TestAccounts;
use crate::editor::Editor;
use crate::memory::MemoryHistory;
use crate::script::{Script, Step};
use crate::scripted_tools::ScriptedTools;
use crate::transcript::Transcript;

/// The capacity of a pipe in bytes.
const PIPE: usize = 64 << 10;

pub struct Scene {
    pub runtime: Runtime,
    pub script: Script,
    pub history: MemoryHistory,
    pub transcript: Transcript,
    pub accounts: TestAccounts,
    ports: Ports,
}

impl Scene {
    /// Builds a scene whose model answers from these lists, one per request. Must be called inside
    /// an actix system.
    pub fn new(answers: Vec<Vec<Step>>) -> Scene {
        Self::with(answers, |_| {})
    }

    pub fn with(answers: Vec<Vec<Step>>, adjust: impl FnOnce(&mut RuntimeSettings)) -> Scene {
        Self::with_ports(answers, |ports| adjust(&mut ports.settings))
    }

    /// Builds a scene with a paused clock whose ports the test may wrap or replace.
    pub fn with_ports(answers: Vec<Vec<Step>>, adjust: impl FnOnce(&mut Ports)) -> Scene {
        tokio::time::pause();
        let history = MemoryHistory::default();
        Self::set(answers, adjust, Arc::new(history.clone()), history, Vec::new())
    }

    /// Builds a scene with these tools instead of the scripted ones. It runs in real time unless
    /// the test pauses the clock, because a paused clock does not wait for processes.
    pub fn equipped(answers: Vec<Vec<Step>>, tools: Arc<dyn Toolbox>) -> Scene {
        let history = MemoryHistory::default();
        Self::set(answers, |ports| ports.toolbox = tools, Arc::new(history.clone()), history, Vec::new())
    }

    /// Builds a scene in real time with ports that the test chooses, for models that are not
    /// scripted.
    pub fn adjusted(adjust: impl FnOnce(&mut Ports)) -> Scene {
        let history = MemoryHistory::default();
        Self::set(Vec::new(), adjust, Arc::new(history.clone()), history, Vec::new())
    }

    /// Builds a scene in real time, on these arbiters and with this history. The scene's own
    /// `history` stays empty.
    pub fn real(answers: Vec<Vec<Step>>, history: Arc<dyn History>, arbiters: Vec<ArbiterHandle>) -> Scene {
        Self::set(answers, |_| {}, history, MemoryHistory::default(), arbiters)
    }

    fn set(
        answers: Vec<Vec<Step>>,
        adjust: impl FnOnce(&mut Ports),
        store: Arc<dyn History>,
        history: MemoryHistory,
        arbiters: Vec<ArbiterHandle>,
    ) -> Scene {
        let transcript = Transcript::default();
        let accounts = TestAccounts::default();
        let script = Script::new("script", answers);
        let models = ScriptedCatalogue { script: script.clone(), transcript: transcript.clone() };
        let mut ports = Ports {
            models: Arc::new(models),
            toolbox: Arc::new(ScriptedTools { transcript: transcript.clone() }),
            history: store,
            agents: Arc::new(NoAgents),
            folders: Arc::new(TestFolders),
            worktrees: Arc::new(NoWorktrees),
            accounts: Arc::new(accounts.clone()),
            instructions: Arc::new(ModePrompt),
            ledger: Arc::<domain::budget::DayLedger>::default(),
            backlog: Arc::default(),
            settings: RuntimeSettings::default(),
        };
        adjust(&mut ports);
        let runtime = Runtime::open(ports.clone(), arbiters);
        Scene { runtime, script, history, transcript, accounts, ports }
    }

    /// Starts another daemon in the same scene, which knows only what is in the history. The
    /// previous one must have been drained, or have ended by `crash`.
    #[must_use]
    pub fn restarted(self) -> Scene {
        let runtime = Runtime::open(self.ports.clone(), Vec::new());
        Scene { runtime, ..self }
    }

    /// Drops everything that sessions hold in memory, as a crash of the daemon does. Clients stay
    /// connected.
    pub async fn crash(&self) {
        self.history.panic_on_status_once();
        let before = self.transcript.take();
        self.client("crash").call("_acpd/status", serde_json::json!({})).await;
        self.transcript.take();
        before.lines().for_each(|line| self.transcript.note(line));
    }

    /// Connects a client that has not sent anything yet.
    pub fn client(&self, name: &str) -> Editor {
        self.client_over(PIPE, name)
    }

    /// Connects a client over a pipe of this many bytes, so that a client that does not read soon
    /// blocks its writer.
    pub fn client_over(&self, bytes: usize, name: &str) -> Editor {
        Editor::new(name, self.pipe_of(bytes), self.transcript.clone())
    }

    /// Opens a bare connection, for a test that reads and writes by itself.
    pub fn pipe(&self) -> DuplexStream {
        self.pipe_of(PIPE)
    }

    pub fn pipe_of(&self, bytes: usize) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(bytes);
        let (reader, writer) = tokio::io::split(theirs);
        self.runtime.connect(reader, writer, Peer { transport: Transport::Pipe, pid: None });
        ours
    }

    /// Connects an editor and initializes it. That part is not in the transcript.
    pub async fn editor(&self, name: &str) -> Editor {
        let before = self.transcript.take();
        let mut editor = self.client(name);
        editor.initialize().await;
        self.transcript.take();
        before.lines().for_each(|line| self.transcript.note(line));
        editor
    }

    /// Connects an editor and opens a session. That part is not in the transcript.
    pub async fn editor_with_session(&self, name: &str) -> (Editor, String) {
        let mut editor = self.editor(name).await;
        let before = self.transcript.take();
        let session = editor.new_session().await;
        self.transcript.take();
        before.lines().for_each(|line| self.transcript.note(line));
        (editor, session)
    }
}

/// The folders that exist in a scene: `/work` and everything below it, `/linked`, which is another
/// name for `/work`, and real folders that a test has created.
struct TestFolders;

impl Folders for TestFolders {
    fn resolve(&self, path: PathBuf) -> BoxFuture<'static, Result<PathBuf, FolderError>> {
        let real = match path.to_str() {
            Some("/linked") => Ok(PathBuf::from("/work")),
            Some(text) if text == "/work" || text.starts_with("/work/") => Ok(path),
            Some(_) if path.starts_with(std::env::temp_dir()) && path.is_dir() => Ok(path),
            _ => Err(FolderError::NotAFolder(path)),
        };
        Box::pin(ready(real))
    }
}

/// A system prompt that contains only the mode.
struct ModePrompt;

impl Instructions for ModePrompt {
    fn system_prompt(
        &self,
        workspace: Workspace,
        _: ModelId,
    ) -> BoxFuture<'static, domain::instructions::SystemPrompt> {
        Box::pin(ready(format!("mode {}", workspace.mode.id()).into()))
    }
}

/// A catalogue of the scripted model and one that panics when it is looked up.
struct ScriptedCatalogue {
    script: Script,
    transcript: Transcript,
}

const PANICKY: &str = "panicky";

impl Catalogue for ScriptedCatalogue {
    fn list(&self, environment: &Environment) -> Vec<ModelInfo> {
        assert!(environment.get("PANIC").is_none(), "the catalogue panics as scripted");
        let script = self.script.info().clone();
        let panicky = ModelInfo { id: ModelId::from(PANICKY), name: "Panicky".to_owned(), ..script.clone() };
        vec![script, panicky]
    }

    fn find(&self, id: &ModelId) -> Option<Arc<dyn Model>> {
        assert!(id.as_str() != PANICKY, "the catalogue panics as scripted");
        let logged = LoggedModel { script: self.script.clone(), transcript: self.transcript.clone() };
        (*id == self.script.info().id).then(|| Arc::new(logged) as Arc<dyn Model>)
    }

    fn default_model(&self, _: &Environment) -> ModelId {
        self.script.info().id.clone()
    }
}

/// The scripted model, with an entry in the transcript for each request.
struct LoggedModel {
    script: Script,
    transcript: Transcript,
}

impl Model for LoggedModel {
    fn info(&self) -> &ModelInfo {
        self.script.info()
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
        let texts: Vec<String> = request.messages.iter().map(|message| brief(message)).collect();
        self.transcript.note(format!("model  < {}", texts.join(" | ")));
        // A scripted model costs nothing unless the script reports usage. Otherwise estimates would
        // be in every transcript.
        let nothing = stream::iter([Ok(Delta::Usage(Usage::default()))]);
        nothing.chain(self.script.respond(request)).boxed()
    }
}

fn brief(message: &Message) -> String {
    match message {
        Message::User { content, .. } => {
            format!("user: {}", content.iter().map(Content::as_text).collect::<Vec<_>>().join(" "))
        }
        Message::Assistant { parts, .. } => {
            let parts: Vec<String> = parts
                .iter()
                .map(|part| match part {
                    Part::Thought(text) => format!("({text})"),
                    Part::Seal(_) => "<seal>".to_owned(),
                    Part::Text(text) => text.clone(),
                    Part::Call { tool, .. } => format!("[{tool}]"),
                })
                .collect();
            format!("agent: {}", parts.join(" "))
        }
        Message::Results { results } => {
            let images =
                |images: &[Content]| images.iter().map(|image| format!(" {}", image.as_text())).collect::<String>();
            let texts: Vec<String> =
                results.iter().map(|result| format!("{}{}", result.text, images(&result.images))).collect();
            format!("results: {}", texts.join(", "))
        }
    }
}
