//! The language servers of all sessions: starts one when a file is to be checked, and ends it
//! later.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::text::count;
use domain::{CallSite, Mode, SessionId};
use process::{CommandSpec, IoTask, IoThread, Launcher};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::findings::{Finding, shown};
use crate::server::{Checked, Subject};
use crate::serving::{Check, Control, Limits, longest_wait, serve};
use crate::settings::{LanguageServer, Settings};

/// A server that failed this often in one session is not started again.
const MAX_FAILURES: u32 = 3;

/// The longest text that is checked, in bytes.
const LONGEST_TEXT: usize = 2 << 20;

/// The most checks that may wait for one server.
const MAX_WAITING_CHECKS: usize = 16;

/// How much longer than the wait for reports an edit waits for the server to read what it is sent.
/// The server then has the rest of its time to itself.
const GRACE: Duration = Duration::from_secs(1);

const MAX_LINES: usize = 20;
const MAX_OTHER_FILES: usize = 5;
const MAX_LINES_PER_OTHER_FILE: usize = 3;

/// A file that a call has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: PathBuf,
    /// The text before the call; empty for a new file.
    pub before: String,
    pub after: String,
}

/// The reason why a file is not checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    #[error("no language server is configured for this kind of file; [diagnostics] in the configuration names them")]
    NoServer,
    #[error("language servers run only in the mode `full`")]
    Mode,
    #[error(
        "{} is not trusted, so no language server is started in it; the user can add it to `trusted_projects` under \
         [mcp] in the configuration",
        .0.display()
    )]
    Untrusted(PathBuf),
    #[error("the language server `{0}` is not installed")]
    NotInstalled(String),
    #[error("the file is too long for a language server")]
    TooLong,
    #[error("the language server `{name}` failed: {reason}")]
    Failed { name: String, reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    session: SessionId,
    server: String,
    folder: PathBuf,
}

struct Running {
    queue: Queue,
    /// Asks the server to end.
    stop: oneshot::Sender<()>,
    /// Dropping this ends the server too, but does not wait until it has ended.
    task: IoTask<()>,
}

/// The way to a running server.
#[derive(Clone)]
struct Queue {
    checks: mpsc::Sender<Check>,
    /// Whether the server has started, which may take minutes in a large project.
    started: watch::Receiver<bool>,
}

impl Queue {
    fn is_open(&self) -> bool {
        !self.checks.is_closed()
    }

    /// Waits until the server has started, or can no longer start in time.
    async fn until_started(&mut self, start: Duration) {
        // An error means that the server has ended. Its queue reports why.
        let _ = timeout(start, self.started.wait_for(|started| *started)).await;
    }
}

/// Decides whether the model may see what a server reports about a file. It may read the disk.
pub type MayShow = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// The language servers of all sessions.
pub struct LanguageServers {
    thread: IoThread,
    running: Mutex<HashMap<Key, Running>>,
    failures: Mutex<HashMap<Key, u32>>,
}

impl Default for LanguageServers {
    fn default() -> Self {
        Self { thread: IoThread::new("lsp"), running: Mutex::default(), failures: Mutex::default() }
    }
}

impl LanguageServers {
    /// Returns whether any of these files may have a server in this session. Does not read the
    /// disk, so it cannot know whether the server is installed.
    pub fn cover(&self, settings: &Settings, site: &CallSite, paths: &[&Path]) -> bool {
        site.mode == Mode::Full && settings.may_start() && paths.iter().any(|path| settings.server_for(path).is_some())
    }

    /// Returns a text about the errors that changes have caused, in files that the model may see.
    /// Returns None if there are no new errors, or if no server could check the files.
    pub async fn new_errors(
        &self,
        settings: &Arc<Settings>,
        launcher: &Launcher,
        site: &CallSite,
        changes: Vec<Change>,
        may_show: MayShow,
    ) -> Option<String> {
        let mut groups: HashMap<(String, PathBuf), Vec<Change>> = HashMap::new();
        for change in changes {
            let folder = folder_of(site, &change.path);
            if let Some((name, _, _)) = settings.server_for(&change.path) {
                groups.entry((name.to_owned(), folder)).or_default().push(change);
            }
        }
        let mut texts = Vec::new();
        for ((name, folder), changes) in groups {
            match self.check(settings, launcher, site, &name, &folder, changes).await {
                Ok(checked) => {
                    let checked = without_hidden(checked, Arc::clone(&may_show)).await;
                    texts.extend(describe_new(&name, &checked, &site.cwd));
                }
                Err(reason) => tracing::debug!(session = %site.session, server = name, "no diagnostics: {reason}"),
            }
        }
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Returns everything that the server reports about a file, line by line.
    pub async fn findings(
        &self,
        settings: &Arc<Settings>,
        launcher: &Launcher,
        site: &CallSite,
        path: PathBuf,
        text: String,
    ) -> Result<Vec<Finding>, CheckError> {
        let (name, _, _) = settings.server_for(&path).ok_or(CheckError::NoServer)?;
        let (name, folder) = (name.to_owned(), folder_of(site, &path));
        let change = Change { path, before: text.clone(), after: text };
        let checked = self.check(settings, launcher, site, &name, &folder, vec![change]).await?;
        if checked.late {
            let reason = "it did not report in time; it may still be reading the project".to_owned();
            return Err(CheckError::Failed { name, reason });
        }
        Ok(checked.all.into_iter().flat_map(|(_, findings)| findings).collect())
    }

    /// Ends the servers of a session.
    pub fn close(&self, session: &SessionId) {
        self.running().retain(|key, _| key.session != *session);
        lock(&self.failures).retain(|key, _| key.session != *session);
    }

    /// Ends the servers of a session in a folder and below it, and waits until they have ended.
    pub fn leave(&self, session: &SessionId, folder: &Path) -> impl Future<Output = ()> + Send + use<> {
        let is_left = |key: &Key| key.session == *session && key.folder.starts_with(folder);
        let left: Vec<Running> = self.running().extract_if(|key, _| is_left(key)).map(|(_, running)| running).collect();
        async move {
            for Running { stop, mut task, .. } in left {
                // It may have ended by itself.
                let _ = stop.send(());
                task.done().await;
            }
        }
    }

    async fn check(
        &self,
        settings: &Arc<Settings>,
        launcher: &Launcher,
        site: &CallSite,
        name: &str,
        folder: &Path,
        changes: Vec<Change>,
    ) -> Result<Checked, CheckError> {
        if site.mode != Mode::Full {
            return Err(CheckError::Mode);
        }
        let subjects: Vec<Subject> = changes.into_iter().filter_map(|change| subject(settings, change)).collect();
        if subjects.is_empty() {
            return Err(CheckError::TooLong);
        }
        let key = Key { session: site.session.clone(), server: name.to_owned(), folder: folder.to_owned() };
        let failed = |reason: String| CheckError::Failed { name: name.to_owned(), reason };
        let mut queue = self.queue(&key, settings, launcher, site).await?;
        let patience = longest_wait(settings.wait(), subjects.len()).saturating_add(GRACE);
        let (reply, answer) = oneshot::channel();
        let checks = queue.checks.clone();
        let mut check = pin!(async {
            checks.send(Check { subjects, wait: settings.wait(), reply }).await.ok()?;
            answer.await.ok()
        });
        // Every caller waits for a slow start, not only the one that caused it.
        let too_late = async {
            queue.until_started(settings.start()).await;
            sleep(patience).await;
        };
        let answered = tokio::select! {
            answered = &mut check => answered,
            // It may only be busy. If it stays stuck, the next check notes that as a failure.
            () = too_late => return Err(failed("it did not answer in time".to_owned())),
        };
        match answered {
            Some(Ok(checked)) => Ok(checked),
            Some(Err(reason)) => Err(self.note_failure(key, failed(reason))),
            None => Err(self.note_failure(key, failed("it ended".to_owned()))),
        }
    }

    fn note_failure(&self, key: Key, error: CheckError) -> CheckError {
        self.running().remove(&key);
        *lock(&self.failures).entry(key).or_default() += 1;
        error
    }

    /// Returns the queue of a server. Starts the server if it is not running.
    async fn queue(
        &self,
        key: &Key,
        settings: &Arc<Settings>,
        launcher: &Launcher,
        site: &CallSite,
    ) -> Result<Queue, CheckError> {
        if let Some(running) = self.running().get(key).filter(|running| running.queue.is_open()) {
            return Ok(running.queue.clone());
        }
        let failed = |reason: String| CheckError::Failed { name: key.server.clone(), reason };
        if lock(&self.failures).get(key).is_some_and(|failures| *failures >= MAX_FAILURES) {
            return Err(failed(format!("it failed {MAX_FAILURES} times in this session and is not started again")));
        }
        let server = settings.servers.get(&key.server).ok_or(CheckError::NoServer)?.clone();
        let (trust, folder) = (Arc::clone(settings), key.folder.clone());
        let path = launcher.environment.for_programs(&site.environment, &key.folder).get("PATH").cloned();
        let program = server.command.clone();
        // Runs on a blocking thread, because the folder may be on a network that does not respond.
        let look = move || (trust.trusts(&folder), is_installed(&program, path.as_deref()));
        let (is_trusted, is_installed) = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        if !is_trusted {
            return Err(CheckError::Untrusted(key.folder.clone()));
        }
        if !is_installed {
            return Err(CheckError::NotInstalled(server.command));
        }
        let mut running = self.running();
        // Another call may have started it in the meantime.
        if let Some(running) = running.get(key).filter(|running| running.queue.is_open()) {
            return Ok(running.queue.clone());
        }
        let (checks, received) = mpsc::channel(MAX_WAITING_CHECKS);
        let (has_started, started) = watch::channel(false);
        let (stop, stopped) = oneshot::channel();
        let command = command(&server, launcher, site, &key.folder);
        let limits = Limits { start: settings.start(), idle: settings.idle() };
        let control = Control { has_started, stopped };
        let work = serve(command, key.folder.clone(), limits, control, received);
        let task = self.thread.spawn(work).map_err(|error| failed(error.to_string()))?;
        let queue = Queue { checks, started };
        running.insert(key.clone(), Running { queue: queue.clone(), stop, task });
        Ok(queue)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Key, Running>> {
        lock(&self.running)
    }
}

/// Every operation leaves the maps consistent, so a poisoned lock is harmless.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the innermost root of the session that contains a file, or the working folder.
fn folder_of(site: &CallSite, path: &Path) -> PathBuf {
    let around = site.roots().filter(|root| path.starts_with(root));
    around.max_by_key(|root| root.components().count()).unwrap_or(&site.cwd).to_owned()
}

fn subject(settings: &Settings, change: Change) -> Option<Subject> {
    let (_, _, language) = settings.server_for(&change.path)?;
    let fits = change.before.len() <= LONGEST_TEXT && change.after.len() <= LONGEST_TEXT;
    let (language, Change { path, before, after }) = (language.to_owned(), change);
    fits.then_some(Subject { path, language, before, text: after })
}

fn is_installed(program: &str, path: Option<&str>) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    path.unwrap_or_default()
        .split(':')
        .filter(|folder| folder.starts_with('/'))
        .any(|folder| Path::new(folder).join(program).is_file())
}

fn command(server: &LanguageServer, launcher: &Launcher, site: &CallSite, folder: &Path) -> CommandSpec {
    CommandSpec {
        runner: launcher.runner.clone(),
        program: server.command.clone(),
        arguments: server.args.clone(),
        environment: launcher.environment.for_programs(&site.environment, folder),
        folder: folder.to_owned(),
        sandbox: None,
        shield: Vec::new(),
        process_limit: Some(launcher.process_limit),
        input: None,
    }
}

/// Leaves out what a server reports about other files of which the model may not see the contents.
async fn without_hidden(checked: Checked, may_show: MayShow) -> Checked {
    let Checked { mut new, all, late } = checked;
    let subjects: Vec<PathBuf> = all.iter().map(|(path, _)| path.clone()).collect();
    let new = tokio::task::spawn_blocking(move || {
        new.retain(|(path, _)| subjects.contains(path) || may_show(path));
        new
    });
    // If this panics, it is unknown what the model may see.
    Checked { new: new.await.unwrap_or_default(), all, late }
}

/// Describes the new errors for the model; None if there are none.
fn describe_new(server: &str, checked: &Checked, cwd: &Path) -> Option<String> {
    let is_subject = |path: &Path| checked.all.iter().any(|(subject, _)| subject == path);
    let (subjects, others): (Vec<_>, Vec<_>) = checked.new.iter().partition(|(path, _)| is_subject(path));
    let mut lines = Vec::new();
    for (path, errors) in &subjects {
        add_lines(&mut lines, path, errors, cwd, MAX_LINES);
    }
    for (path, errors) in others.iter().take(MAX_OTHER_FILES) {
        add_lines(&mut lines, path, errors, cwd, MAX_LINES_PER_OTHER_FILE);
    }
    if others.len() > MAX_OTHER_FILES {
        lines.push(format!("[and errors in {}]", count(others.len() - MAX_OTHER_FILES, "other file")));
    }
    (!lines.is_empty()).then(|| format!("[{server} reports new errors after this change:]\n{}", lines.join("\n")))
}

fn add_lines(lines: &mut Vec<String>, path: &Path, errors: &[Finding], cwd: &Path, most: usize) {
    let name = shown(path, cwd);
    lines.extend(errors.iter().take(most).map(|error| error.describe(&name)));
    if errors.len() > most {
        lines.push(format!("[and {} more in {name}]", errors.len() - most));
    }
}

#[cfg(test)]
mod tests;
