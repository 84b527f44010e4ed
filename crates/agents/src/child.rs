//! Runs one child process: starts it under `acpd __run` and waits until it or its session ends.

use std::sync::Arc;
use std::time::Duration;

use domain::hosted::{AgentFailure, AgentFailureKind, AgentLaunch, AgentReport};
use process::{CommandExit, CommandSpec, PipedCommand};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::child_protocol::{AgentTimeouts, ChildProtocol, Pipes, run};
use crate::hosts::AgentHostSettings;
use crate::link::SessionRequest;
use crate::services::{ServiceContext, Services};
use crate::settings::{AgentSettings, WorkingFolder};
use crate::shared::{SharedChildren, SharedConnection};
use crate::stderr::LastLine;

/// How long to wait for the exit of a child that closed its output. Its exit status explains the
/// failure.
pub(crate) const EXIT_STATUS_DEADLINE: Duration = Duration::from_millis(300);

/// How long a child may take to exit by itself after its input is closed.
const EXIT_DEADLINE: Duration = Duration::from_millis(500);

/// How long to wait for a shared child to exit.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

/// Starts a child and serves it until it or its session ends. Returns the reason if the child
/// failed. All processes of the child are gone when this returns.
pub(crate) async fn follow(
    entry: &AgentSettings,
    launch: AgentLaunch,
    settings: &AgentHostSettings,
    requests: &mut mpsc::UnboundedReceiver<SessionRequest>,
    reports: &mpsc::Sender<AgentReport>,
) -> Option<AgentFailure> {
    let agent = launch.agent.clone();
    let timeouts = AgentTimeouts { start: entry.start(), cancel: entry.cancel() };
    let context = ServiceContext::new(&launch, settings, entry.sandbox);
    let started = match command(entry, &launch, settings, &context).await {
        Ok(command) => command.start_piped().await.map_err(|error| error.to_string()),
        Err(reason) => Err(reason),
    };
    let PipedCommand { mut process, mut stdin, mut stdout, stderr } = match started {
        Ok(started) => started,
        Err(reason) => return Some(AgentFailure::broken(format!("the agent `{agent}` cannot be started: {reason}"))),
    };
    let last_line = LastLine::default();
    let log = tokio::spawn({
        let agent = agent.clone();
        last_line.clone().follow(stderr, move |line| tracing::info!(agent, "wrote: {line}"))
    });
    let protocol = ChildProtocol::new(launch, entry.version, timeouts, Services::new(context));
    let pipes = Pipes { from_child: &mut stdout, to_child: &mut stdin };
    let failure = tokio::select! {
        failure = run(protocol, pipes, requests, reports) => failure,
        ended = process.ended() => Some(AgentFailure::broken(describe(&agent, &ended))),
    };
    let failure = match failure {
        // The pipes stay open: a child that is given up must not end because they close, or its
        // exit status would take the place of the reason.
        Some(failure) => match timeout(EXIT_STATUS_DEADLINE, process.ended()).await {
            Ok(ended) => Some(AgentFailure { message: describe(&agent, &ended), ..failure }),
            Err(_) => Some(failure),
        },
        None => {
            // A child that reads its input exits at end of file.
            drop((stdin, stdout));
            let _ = timeout(EXIT_DEADLINE, process.ended()).await;
            None
        }
    };
    process.close().await;
    // The pipe of standard error closes when the last process of the child exits.
    let _ = timeout(EXIT_STATUS_DEADLINE, log).await;
    failure.map(|failure| with_last_line(failure, &last_line))
}

/// Joins a shared child and serves the session until it or the child ends. Returns the reason if
/// the child failed.
pub(crate) async fn follow_shared(
    entry: &AgentSettings,
    launch: AgentLaunch,
    settings: &AgentHostSettings,
    children: &Arc<SharedChildren>,
    requests: &mut mpsc::UnboundedReceiver<SessionRequest>,
    reports: &mpsc::Sender<AgentReport>,
) -> Option<AgentFailure> {
    let timeouts = AgentTimeouts { start: entry.start(), cancel: entry.cancel() };
    let services = Services::new(ServiceContext::new(&launch, settings, entry.sandbox));
    let SharedConnection { pipe, mut ended, stop } = children.join(entry, &launch, settings);
    let (from_child, to_child) = tokio::io::split(pipe);
    let protocol = ChildProtocol::new(launch, entry.version, timeouts, services);
    let failure = run(protocol, Pipes { from_child, to_child }, requests, reports).await?;
    let reason = ended.borrow().clone();
    if let Some(message) = reason {
        return Some(AgentFailure { message, ..failure });
    }
    if failure.kind == AgentFailureKind::Broken {
        // A child that hangs or breaks the protocol is of no use to the other sessions either.
        stop.notify_one();
        let _ = timeout(ENDED_WITHIN, ended.wait_for(Option::is_some)).await;
    }
    Some(failure)
}

/// Adds the last line of the child's standard error to a failure, because it usually names the
/// cause.
pub(crate) fn with_last_line(mut failure: AgentFailure, last_line: &LastLine) -> AgentFailure {
    if let Some(line) = last_line.get() {
        if !failure.data.is_object() {
            failure.data = serde_json::json!({});
        }
        failure.data["stderr"] = serde_json::json!(line);
    }
    failure
}

pub(crate) fn describe(agent: &str, ended: &CommandExit) -> String {
    match ended {
        CommandExit::Exited(code) => format!("the agent `{agent}` ended with exit status {code}"),
        CommandExit::Signalled(signal) => format!("the agent `{agent}` was killed by signal {signal}"),
        CommandExit::Failed(reason) => format!("the agent `{agent}` cannot be started: {reason}"),
        CommandExit::TooMany(most) => format!("the agent `{agent}` had more than {most} processes"),
        CommandExit::Lost => format!("the helper process of the agent `{agent}` was killed"),
    }
}

pub(crate) async fn command(
    entry: &AgentSettings,
    launch: &AgentLaunch,
    settings: &AgentHostSettings,
    context: &ServiceContext,
) -> Result<CommandSpec, String> {
    let folder = match &entry.cwd {
        WorkingFolder::Session => launch.cwd.clone(),
        WorkingFolder::Fixed(folder) => folder.clone(),
    };
    let mut environment = settings.launcher.environment.for_agents(&launch.environment, &folder);
    environment.extend(entry.env.clone());
    Ok(CommandSpec {
        runner: settings.launcher.runner.clone(),
        program: entry.command.clone(),
        arguments: entry.args.clone(),
        environment,
        folder,
        sandbox: context.sandbox().await?,
        shield: Vec::new(),
        process_limit: Some(settings.launcher.process_limit),
        input: None,
    })
}
