//! One running language server: the files that it has open, and its reports about them.
//!
//! Runs one check at a time. A server that supports pull diagnostics is asked for them, and may
//! publish more while it works on. Any other server publishes them, and the check waits until it
//! has done so for the latest text.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::resource_link::file_path;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use crate::connection::Connection;
use crate::documents::Documents;
use crate::findings::{Finding, new_errors};
use crate::messages;
use crate::reports::{MAX_FINDINGS_ELSEWHERE, ReportKind, Reports};

/// How long to wait for further reports after the first. Servers often publish again after a closer
/// look, or about other files.
const SETTLE: Duration = Duration::from_millis(250);

/// The most operations of a server that are tracked at a time, and the most bytes in the name of
/// one.
const MAX_OPERATIONS: usize = 64;
const LONGEST_TOKEN: usize = 200;

/// One file to check.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) path: PathBuf,
    pub(crate) language: String,
    /// The text before the change; equal to `text` if nothing changed.
    pub(crate) before: String,
    pub(crate) text: String,
}

/// The result of a check, file by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Errors that were not there before. The checked files come first.
    pub(crate) new: Vec<(PathBuf, Vec<Finding>)>,
    /// All findings in the checked files.
    pub(crate) all: Vec<(PathBuf, Vec<Finding>)>,
    /// Whether the server did not report in time about some file.
    pub(crate) late: bool,
}

/// How a server came to rest.
enum Settled {
    Idle,
    /// It was busy first, and has finished.
    AfterWork,
    /// The deadline came first.
    Never,
}

pub(crate) struct Server<R, W> {
    connection: Connection<R, W>,
    documents: Documents,
    reports: Reports,
    /// Whether it supports pull diagnostics.
    pulls: bool,
    /// The operations that it has begun and not ended, such as a run of `cargo check`.
    in_progress: HashSet<String>,
    last_id: i64,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Server<R, W> {
    /// Initializes a server that was just started.
    pub(crate) async fn start(connection: Connection<R, W>, folder: &Path) -> io::Result<Self> {
        let mut server = Self {
            connection,
            documents: Documents::default(),
            reports: Reports::default(),
            pulls: false,
            in_progress: HashSet::new(),
            last_id: 0,
        };
        let offer = server.call("initialize", messages::initialize(folder), None).await?;
        let offer = offer.ok_or_else(|| io::Error::other("it refused to start"))?;
        server.pulls = !matches!(offer["capabilities"]["diagnosticProvider"], Value::Null | Value::Bool(false));
        server.notify(messages::notification("initialized", json!({}))).await?;
        Ok(server)
    }

    /// Returns the next message. Dropping the future loses nothing, unlike that of `handle`.
    pub(crate) async fn next(&mut self) -> io::Result<Value> {
        self.connection.next().await?.ok_or_else(|| io::Error::other("it ended"))
    }

    /// Asks the server to shut down.
    pub(crate) async fn stop(&mut self) -> io::Result<()> {
        self.call("shutdown", Value::Null, None).await?;
        self.notify(messages::notification("exit", Value::Null)).await
    }

    /// Sends the old and the new texts to the server, and compares its reports about them.
    pub(crate) async fn check(&mut self, subjects: &[Subject], wait: Duration) -> io::Result<Checked> {
        let mut late = false;
        for subject in subjects {
            if !self.documents.has(&subject.path, &subject.before) {
                self.give(subject, &subject.before).await?;
                late |= !self.look(&subject.path, wait).await?;
            }
        }
        let before = self.reports.snapshot();
        for subject in subjects {
            if subject.before != subject.text {
                self.give(subject, &subject.text).await?;
                self.notify(messages::saved(&subject.path)).await?;
                late |= !self.look(&subject.path, wait).await?;
            }
        }
        Ok(self.compare(subjects, &before, late))
    }

    fn compare(&self, subjects: &[Subject], before: &HashMap<PathBuf, Vec<Finding>>, late: bool) -> Checked {
        let findings = |path: &Path| self.reports.findings(path);
        let old = |path: &Path| before.get(path).map(Vec::as_slice).unwrap_or_default();
        let is_subject = |path: &Path| subjects.iter().any(|subject| subject.path == path);
        // If the list before was cut, what it lacks would look new.
        let others = self.reports.paths().filter(|path| !is_subject(path) && old(path).len() < MAX_FINDINGS_ELSEWHERE);
        let paths = subjects.iter().map(|subject| &subject.path).chain(others);
        let new = paths.map(|path| (path.clone(), new_errors(old(path), &findings(path))));
        Checked {
            new: new.filter(|(_, errors)| !errors.is_empty()).collect(),
            all: subjects.iter().map(|subject| (subject.path.clone(), findings(&subject.path))).collect(),
            late,
        }
    }

    async fn give(&mut self, subject: &Subject, text: &str) -> io::Result<()> {
        for message in self.documents.set(&subject.path, &subject.language, text) {
            self.notify(message).await?;
        }
        Ok(())
    }

    /// Waits for the report about the current text of a file. Returns false if there was none in
    /// time.
    async fn look(&mut self, path: &Path, wait: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + wait;
        if !self.pulls {
            return self.wait_for_publication(path, deadline).await;
        }
        // What a server returns at once may lack what it is still working on.
        Ok(self.pull(path, deadline).await?
            && match self.settle(deadline).await? {
                Settled::Idle => true,
                Settled::AfterWork => self.pull(path, deadline).await?,
                Settled::Never => false,
            })
    }

    /// Asks for the findings of a file. Returns false if there was no report in time.
    async fn pull(&mut self, path: &Path, deadline: Instant) -> io::Result<bool> {
        let params = json!({"textDocument": {"uri": domain::resource_link::file_uri(path)}});
        let report = self.call(messages::PULL, params, Some(deadline)).await?;
        if let Some(report) = &report {
            self.take_pulled(path, report);
        }
        Ok(report.is_some())
    }

    /// Waits until the server has been quiet for a moment with nothing in progress.
    async fn settle(&mut self, deadline: Instant) -> io::Result<Settled> {
        let mut worked = false;
        loop {
            let is_idle = self.in_progress.is_empty();
            worked |= !is_idle;
            let until = if is_idle { deadline.min(Instant::now() + SETTLE) } else { deadline };
            match timeout_at(until, self.next()).await {
                Ok(message) => self.handle(&message?).await?,
                Err(_) if !is_idle => return Ok(Settled::Never),
                Err(_) => return Ok(if worked { Settled::AfterWork } else { Settled::Idle }),
            }
        }
    }

    async fn wait_for_publication(&mut self, path: &Path, deadline: Instant) -> io::Result<bool> {
        let (version, before) = (self.documents.version(path), self.reports.received());
        let mut settled = None;
        loop {
            let until = settled.unwrap_or(deadline).min(deadline);
            let Ok(message) = timeout_at(until, self.next()).await else { return Ok(settled.is_some()) };
            self.handle(&message?).await?;
            if self.reports.is_published(path, version, before) {
                settled = Some(Instant::now() + SETTLE);
            }
        }
    }

    fn take_pulled(&mut self, path: &Path, report: &Value) {
        if report["kind"] != "unchanged" {
            self.note(path.to_owned(), ReportKind::Pulled, &report["items"]);
        }
        let related = report["relatedDocuments"].as_object().into_iter().flatten();
        for (uri, report) in related.filter(|(_, report)| report["kind"] != "unchanged") {
            if let Some(path) = file_path(uri) {
                self.note(path, ReportKind::Pulled, &report["items"]);
            }
        }
    }

    fn note(&mut self, path: PathBuf, kind: ReportKind, list: &Value) {
        let is_open = self.documents.version(&path).is_some();
        self.reports.note(path, kind, Finding::read_all(list), is_open);
    }

    /// Records that an operation of the server begins or ends.
    fn note_progress(&mut self, params: &Value) {
        let token = params["token"].to_string();
        match params["value"]["kind"].as_str() {
            Some("begin") if self.in_progress.len() < MAX_OPERATIONS && token.len() <= LONGEST_TOKEN => {
                self.in_progress.insert(token);
            }
            Some("end") => {
                self.in_progress.remove(&token);
            }
            _ => {}
        }
    }

    /// Sends a request and waits for the response. Returns None if the server returns an error or
    /// does not respond by the deadline.
    async fn call(&mut self, method: &str, params: Value, deadline: Option<Instant>) -> io::Result<Option<Value>> {
        self.last_id += 1;
        let id = self.last_id;
        self.connection.send(&messages::request(id, method, params)).await?;
        loop {
            let mut message = match deadline {
                Some(deadline) => match timeout_at(deadline, self.next()).await {
                    Ok(message) => message?,
                    Err(_) => return Ok(None),
                },
                None => self.next().await?,
            };
            if message["method"].is_null() && message["id"] == id {
                return Ok(message["error"].is_null().then(|| message["result"].take()));
            }
            self.handle(&message).await?;
        }
    }

    async fn notify(&mut self, message: Value) -> io::Result<()> {
        self.connection.send(&message).await
    }

    /// Answers a request of the server, or records what it publishes and what it is working on.
    pub(crate) async fn handle(&mut self, message: &Value) -> io::Result<()> {
        let Some(method) = message["method"].as_str() else { return Ok(()) };
        let (id, params) = (&message["id"], &message["params"]);
        if !id.is_null() {
            return self.connection.send(&messages::answer(id, method, params)).await;
        }
        if method == messages::PROGRESS {
            self.note_progress(params);
        } else if method == messages::PUBLISHED
            && let Some(path) = params["uri"].as_str().and_then(file_path)
        {
            let version = params["version"].as_i64().and_then(|version| i32::try_from(version).ok());
            self.note(path, ReportKind::Published(version), &params["diagnostics"]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
