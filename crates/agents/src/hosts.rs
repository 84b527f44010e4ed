//! Starts the configured agents as child processes: implements the port `Agents` of `domain`. A
//! session owns the link to its child, and the child ends when the link is dropped.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::Swap;
use domain::hosted::{AgentFailure, AgentLaunch, AgentReport, Agents, ClientRules, StartedAgent};
use futures_util::stream::{self, StreamExt};
use process::confine::{AccessLimits, PinnedRoots};
use process::{IoThread, Launcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::child;
use crate::child_protocol::{AgentTimeouts, ChildProtocol, Pipes, run};
use crate::link::{Link, SessionRequest};
use crate::services::{ServiceContext, Services};
use crate::settings::{AgentsSettings, NATIVE};
use crate::shared::SharedChildren;

/// The most reports that may wait for a session.
const MAX_WAITING_REPORTS: usize = 256;

/// The pause before an agent is started again after one failure, and the longest pause after
/// several.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A child that ran for this long counts as stable. Failures longer ago than this are forgotten.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// The settings and services of the daemon that children need.
#[derive(Clone)]
pub struct AgentHostSettings {
    pub agents: AgentsSettings,
    pub launcher: Launcher,
    /// acpd's own files and folders. No request of a child may touch them.
    pub protected_paths: Arc<Vec<PathBuf>>,
    /// What a child in the sandbox may read; None for everything.
    pub sandbox_reads: Option<Vec<PathBuf>>,
    /// The rules that decide about the requests of children; None allows everything.
    pub rules: Option<Arc<dyn ClientRules>>,
    /// The acpd binary, which runs as the parent of commands in an editor's terminal.
    pub terminal_parent: Option<PathBuf>,
    pinned_roots: Arc<PinnedRoots>,
}

impl AgentHostSettings {
    pub fn new(launcher: Launcher) -> Self {
        Self {
            agents: AgentsSettings::default(),
            launcher,
            protected_paths: Arc::default(),
            sandbox_reads: None,
            rules: None,
            terminal_parent: None,
            pinned_roots: Arc::default(),
        }
    }

    pub(crate) fn limits(&self) -> Arc<AccessLimits> {
        let protected_paths = self.protected_paths.to_vec();
        Arc::new(AccessLimits { protected_paths, pinned_roots: self.pinned_roots.clone() })
    }
}

/// Starts the configured agents as child processes.
pub struct HostedAgents {
    settings: Swap<AgentHostSettings>,
    io_thread: IoThread,
    failures: Arc<Failures>,
    shared: Arc<SharedChildren>,
}

impl HostedAgents {
    pub fn new(settings: AgentHostSettings) -> Self {
        Self {
            settings: Swap::new(settings),
            io_thread: IoThread::new("agents"),
            failures: Arc::default(),
            shared: Arc::default(),
        }
    }

    /// Replaces the settings for children that are started from now on.
    pub fn reload(&self, settings: AgentHostSettings) {
        self.settings.replace(settings);
    }
}

/// The recent failures of each agent: how many, and when the last one was.
#[derive(Default)]
struct Failures(Mutex<HashMap<String, (u32, Instant)>>);

impl Failures {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, (u32, Instant)>> {
        // Every operation leaves the map consistent, so a poisoned lock is harmless.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long to wait before the agent is started.
    fn pause(&self, agent: &str) -> Duration {
        match self.lock().get(agent) {
            Some((count, last)) if last.elapsed() < STABLE_AFTER => {
                FIRST_PAUSE.saturating_mul(1 << count.saturating_sub(1).min(10)).min(LONGEST_PAUSE)
            }
            Some(_) | None => Duration::ZERO,
        }
    }

    fn note(&self, agent: &str, started: Instant) {
        let mut failures = self.lock();
        if started.elapsed() > STABLE_AFTER {
            failures.remove(agent);
            return;
        }
        let (count, last) = failures.entry(agent.to_owned()).or_insert((0, Instant::now()));
        *count = if last.elapsed() < STABLE_AFTER { *count + 1 } else { 1 };
        *last = Instant::now();
    }
}

impl Agents for HostedAgents {
    fn default_agent(&self) -> Option<String> {
        self.settings.get().agents.default.clone().filter(|name| name != NATIVE)
    }

    fn names(&self) -> Vec<String> {
        self.settings.get().agents.entries.keys().cloned().collect()
    }

    fn start(&self, launch: AgentLaunch) -> StartedAgent {
        let (link, mut requests) = Link::new();
        let (tell, reports) = mpsc::channel(MAX_WAITING_REPORTS);
        let settings = self.settings.get();
        let (failures, shared) = (self.failures.clone(), self.shared.clone());
        let work = async move {
            let agent = launch.agent.clone();
            let Some(entry) = settings.agents.entries.get(&agent) else {
                let failure = format!("there is no agent `{agent}` in the configuration any more");
                return drop(tell.send(AgentReport::Gone(AgentFailure::broken(failure))).await);
            };
            tokio::time::sleep(failures.pause(&agent)).await;
            let started = Instant::now();
            let failure = match entry.shared {
                true => child::follow_shared(entry, launch, &settings, &shared, &mut requests, &tell).await,
                false => child::follow(entry, launch, &settings, &mut requests, &tell).await,
            };
            if let Some(failure) = failure {
                tracing::warn!(agent, reason = failure.message, "a child agent has ended");
                failures.note(&agent, started);
                // The session may be gone too, and then no report is needed.
                let _ = tell.send(AgentReport::Gone(failure)).await;
            }
        };
        match self.io_thread.spawn(work) {
            Ok(task) => task.detach(),
            Err(error) => {
                let failure = AgentFailure::broken(format!("no thread for agents can be started: {error}"));
                let reports = stream::iter([AgentReport::Gone(failure)]).boxed();
                return StartedAgent { link: Box::new(link), reports };
            }
        }
        StartedAgent { link: Box::new(link), reports: received(reports).boxed() }
    }
}

fn received(reports: mpsc::Receiver<AgentReport>) -> impl stream::Stream<Item = AgentReport> {
    stream::unfold(reports, |mut reports| async move { Some((reports.recv().await?, reports)) })
}

/// Agents for tests, behind pipes whose other end the test holds. There is one agent, `child`,
/// which is the default.
pub struct PipedAgents<F> {
    settings: AgentHostSettings,
    version: i64,
    connect: F,
}

impl<F> PipedAgents<F> {
    /// Creates the agents. `connect` is called for each child that is started, and returns acpd's
    /// end of its pipe.
    pub fn new(launcher: Launcher, connect: F) -> Self {
        Self { settings: AgentHostSettings::new(launcher), version: 1, connect }
    }

    /// Offers children this version of the protocol.
    #[must_use]
    pub fn with_version(mut self, version: i64) -> Self {
        self.version = version;
        self
    }
}

impl<F, R, W> Agents for PipedAgents<F>
where
    F: Fn() -> (R, W) + Send + Sync + 'static,
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    fn default_agent(&self) -> Option<String> {
        Some("child".to_owned())
    }

    fn names(&self) -> Vec<String> {
        vec!["child".to_owned()]
    }

    fn start(&self, launch: AgentLaunch) -> StartedAgent {
        let (link, mut requests): (Link, mpsc::UnboundedReceiver<SessionRequest>) = Link::new();
        let (tell, reports) = mpsc::channel(MAX_WAITING_REPORTS);
        let services = Services::new(ServiceContext::new(&launch, &self.settings, false));
        let timeouts = AgentTimeouts { start: Duration::from_secs(60), cancel: Duration::from_secs(10) };
        let (from_child, to_child) = (self.connect)();
        let version = self.version;
        tokio::spawn(async move {
            let protocol = ChildProtocol::new(launch, version, timeouts, services);
            if let Some(failure) = run(protocol, Pipes { from_child, to_child }, &mut requests, &tell).await {
                // The session may be gone too, and then no report is needed.
                let _ = tell.send(AgentReport::Gone(failure)).await;
            }
        });
        StartedAgent { link: Box::new(link), reports: received(reports).boxed() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_keeps_failing_is_started_after_growing_pauses() {
        let failures = Failures::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(failures.pause("mine").as_millis());
            failures.note("mine", Instant::now());
        }
        assert_eq!(pauses, [0, 250, 500, 1000, 2000, 4000, 8000, 10_000]);
        assert_eq!(failures.pause("other"), Duration::ZERO);
        tokio::time::advance(STABLE_AFTER).await;
        assert_eq!(failures.pause("mine"), Duration::ZERO, "a failure is forgotten after a while");

        failures.note("mine", Instant::now());
        let started = Instant::now();
        tokio::time::advance(STABLE_AFTER + Duration::from_secs(1)).await;
        failures.note("mine", started);
        assert_eq!(failures.pause("mine"), Duration::ZERO, "it worked for a long time before it failed");
    }
}
