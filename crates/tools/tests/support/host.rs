//! A session as the tools see it: a folder, a host that remembers what it was shown, and one call
//! at a time.

use std::path::Path;
use std::sync::{Arc, Mutex};

use acpd_tools::Registry;
use domain::tool::{Job, PlanRefusal, ToolHost, ToolRequest, Toolbox};
use domain::{CallSite, Mode, Outcome, SessionId, ToolContent, TurnId};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

pub(crate) struct TestHost {
    pub(crate) shown: Mutex<Vec<String>>,
    cancel: watch::Sender<bool>,
}

impl TestHost {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { shown: Mutex::default(), cancel: watch::Sender::new(false) })
    }

    #[allow(dead_code, reason = "not every test cancels")]
    pub(crate) fn cancel(&self) {
        self.cancel.send_replace(true);
    }
}

impl ToolHost for TestHost {
    fn progress(&self, content: Vec<ToolContent>) {
        for item in content {
            if let ToolContent::Text { text } = item {
                self.shown.lock().unwrap().push(text);
            }
        }
    }

    fn cancelled(&self) -> BoxFuture<'static, ()> {
        let mut watch = self.cancel.subscribe();
        Box::pin(async move {
            // A host that is gone cancels nothing.
            if watch.wait_for(|cancelled| *cancelled).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

pub(crate) fn site(folder: &Path, environment: &[(&str, &str)]) -> CallSite {
    CallSite {
        session: SessionId::new(),
        turn: TurnId::new(),
        agent: None,
        cwd: folder.to_owned(),
        extra_roots: Vec::new(),
        mode: Mode::Full,
        environment: Arc::new(environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()),
        seen: Arc::default(),
        entered: Arc::default(),
        editor: None,
    }
}

pub(crate) async fn plan(
    registry: &Registry,
    site: &Arc<CallSite>,
    tool: &str,
    input: Value,
) -> Result<Box<dyn Job>, PlanRefusal> {
    registry.plan(ToolRequest { tool: tool.to_owned(), input }, Arc::clone(site)).await
}

pub(crate) async fn call(registry: &Registry, site: &Arc<CallSite>, tool: &str, input: Value) -> Outcome {
    match plan(registry, site, tool, input).await {
        Ok(job) => job.run(TestHost::new()).await,
        Err(refusal) => panic!("refused: {}", refusal.reason),
    }
}

#[allow(dead_code, reason = "only the file tests look at refusals")]
pub(crate) async fn refusal(registry: &Registry, site: &Arc<CallSite>, tool: &str, input: Value) -> String {
    match plan(registry, site, tool, input).await {
        Ok(_) => panic!("not refused"),
        Err(refusal) => refusal.reason,
    }
}
