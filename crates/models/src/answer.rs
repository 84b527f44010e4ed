//! One request and its streamed answer: sends, reads, waits and sends again, until the answer is whole or has failed.
//!
//! Both dialects are carried out here; what differs is handed in as a body, a `Fold` and a way to give in. Everything
//! happens inside the stream, so dropping the stream drops the request.

mod reading;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use domain::Environment;
use domain::model::{Delta, ModelError};
use domain::turn::Usage;
use futures_util::stream::{self, BoxStream, StreamExt};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use tracing::debug;

use self::reading::{Progress, Reading};
use crate::failure::{Again, Complaint, Failure};
use crate::key::Key;
use crate::retry::{Retry, retry_after};
use crate::service::{Line, Service};

/// Bytes of an error answer that are read.
const LONGEST_COMPLAINT: usize = 64 << 10;
const COMPLAINT_PATIENCE: Duration = Duration::from_secs(5);

/// How often one request is changed because the provider refuses part of it.
const CONCESSIONS: u32 = 3;

/// Turns the events of one answer into deltas.
pub(crate) trait Fold: Send + 'static {
    /// Takes one event. Calls, usage and the reason of the stop are kept back for `finish`.
    fn take(&mut self, event: &str, deltas: &mut VecDeque<Delta>) -> Result<(), Failure>;

    /// Whether nothing more is to come.
    fn is_over(&self) -> bool;

    /// Whether the model said why it stopped, so that the answer is whole even if the stream breaks now.
    fn has_stopped(&self) -> bool;

    fn finish(&mut self, deltas: &mut VecDeque<Delta>);

    /// The tokens so far.
    fn spent(&self) -> Usage;
}

/// What is asked, and how its answer is read.
pub(crate) struct Question<F> {
    pub(crate) service: Arc<Service>,
    /// The model as the provider names it.
    pub(crate) model: String,
    pub(crate) path: &'static str,
    pub(crate) environment: Arc<Environment>,
    pub(crate) fold: Box<dyn Fn() -> F + Send>,
    /// Changes the body so that a provider with this complaint may take it; false if it cannot.
    pub(crate) concede: fn(&mut Value, &str) -> bool,
}

/// Asks. The body is built off the caller's thread, because a conversation may be long.
pub(crate) fn stream<F: Fold>(
    question: Question<F>,
    body: impl FnOnce() -> Value + Send + 'static,
) -> BoxStream<'static, Result<Delta, ModelError>> {
    let retry = Retry::new(question.service.retry);
    let answer = Answer {
        question,
        body: Body::ToBuild(Box::new(body)),
        retry,
        concessions: 0,
        rekeyed: false,
        key: None,
        ready: VecDeque::new(),
        shown: false,
        phase: Phase::Asking,
    };
    stream::unfold(answer, Answer::next).fuse().boxed()
}

struct Answer<F> {
    question: Question<F>,
    body: Body,
    retry: Retry,
    concessions: u32,
    /// Whether a refused key was looked up anew already.
    rekeyed: bool,
    /// The key of the last request, for the wording of errors.
    key: Option<Key>,
    /// What the stream gives out next.
    ready: VecDeque<Delta>,
    /// Whether any of the answer was given out, so that asking again would say it twice.
    shown: bool,
    phase: Phase<F>,
}

enum Body {
    ToBuild(Box<dyn FnOnce() -> Value + Send>),
    Built(Bytes),
}

enum Phase<F> {
    Asking,
    Waiting(Duration),
    Reading(Box<Reading<F>>),
    Failed(ModelError),
    Over,
}

impl<F: Fold> Answer<F> {
    async fn next(mut self) -> Option<(Result<Delta, ModelError>, Self)> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                self.shown |= !matches!(delta, Delta::Notice(_));
                return Some((Ok(delta), self));
            }
            self.phase = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Asking => match self.ask().await {
                    Ok(response) => Phase::Reading(Box::new(Reading::new(response, (self.question.fold)()))),
                    Err(failure) => self.weigh(failure, Usage::default()),
                },
                Phase::Waiting(wait) => {
                    tokio::time::sleep(wait).await;
                    Phase::Asking
                }
                Phase::Reading(mut reading) => {
                    match reading.advance(&mut self.ready, &self.question.service.patience).await {
                        Ok(Progress::More) => Phase::Reading(reading),
                        Ok(Progress::Over) => {
                            reading.let_go();
                            Phase::Over
                        }
                        Err(failure) => self.weigh(failure, reading.spent()),
                    }
                }
                Phase::Failed(error) => return Some((Err(error), self)),
                Phase::Over => return None,
            };
        }
    }

    /// Sends the request until its answer begins.
    async fn ask(&mut self) -> Result<Response, Failure> {
        let body = self.body().await?;
        let service = &self.question.service;
        let line = service.reach(&self.question.environment).await?;
        self.key = line.key().cloned();
        let request = service.post(&line, self.question.path, body)?.send();
        let response = match tokio::time::timeout(service.patience.first(), request).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Failure::unreachable(causes(error))),
            Err(_) => return Err(Failure::stalled(service.patience.first())),
        };
        let status = response.status();
        debug!(provider = service.name, model = self.question.model, status = status.as_u16(), "model answers");
        if !status.is_success() {
            return Err(self.read_refusal(response, &line).await);
        }
        if content_type(&response).starts_with("text/html") { Err(Failure::garbled()) } else { Ok(response) }
    }

    async fn body(&mut self) -> Result<Bytes, Failure> {
        let refused = self.question.service.refused(&self.question.model);
        let concede = self.question.concede;
        let build = match std::mem::replace(&mut self.body, Body::Built(Bytes::new())) {
            Body::Built(body) => {
                self.body = Body::Built(body.clone());
                return Ok(body);
            }
            Body::ToBuild(build) => build,
        };
        let built = tokio::task::spawn_blocking(move || {
            let mut body = build();
            refused.iter().for_each(|complaint| {
                concede(&mut body, complaint);
            });
            Bytes::from(body.to_string())
        });
        let body =
            built.await.map_err(|_| Failure::setting("the request could not be built".to_owned(), "report it"))?;
        self.body = Body::Built(body.clone());
        Ok(body)
    }

    async fn read_refusal(&mut self, response: Response, line: &Line) -> Failure {
        let status = response.status().as_u16();
        let after = retry_after(response.headers(), SystemTime::now());
        let complaint = Complaint::read(&read_some(response).await);
        let mut failure = Failure::of_status(status, &complaint, after);
        if matches!(status, 400 | 422) && self.gives_in(&complaint.message) {
            failure.again = Again::After(Duration::ZERO);
        } else if status == 401 && !self.rekeyed && line.key().is_some() {
            // A command's key may have run out; the command is asked once more before the person is.
            self.rekeyed = true;
            if self.question.service.keys.forget(&self.question.environment).await {
                failure.again = Again::After(Duration::ZERO);
            }
        }
        failure
    }

    /// Leaves out of the request what the provider complains about.
    fn gives_in(&mut self, complaint: &str) -> bool {
        let Body::Built(bytes) = &self.body else { return false };
        let Ok(mut body) = serde_json::from_slice::<Value>(bytes) else { return false };
        let gives_in = self.concessions < CONCESSIONS && (self.question.concede)(&mut body, complaint);
        if gives_in {
            self.concessions += 1;
            self.question.service.note_refused(&self.question.model, complaint);
            self.body = Body::Built(Bytes::from(body.to_string()));
        }
        gives_in
    }

    /// Decides between another try and the end.
    fn weigh(&mut self, failure: Failure, spent: Usage) -> Phase<F> {
        let service = &self.question.service;
        debug!(provider = service.name, model = self.question.model, what = failure.what, "model request failed");
        let wait = self.retry.weigh(&failure);
        if let Some(wait) = wait.filter(|_| !self.shown) {
            // What was read and not given out yet will be said again.
            self.ready.clear();
            if self.retry.is_worth_telling(wait) {
                self.ready.push_back(Delta::Notice(self.notice(&failure, wait)));
            }
            return Phase::Waiting(wait);
        }
        let is_partial = self.shown || !self.ready.is_empty();
        let failure = if is_partial { failure.after_output() } else { failure };
        if spent != Usage::default() {
            self.ready.push_back(Delta::Usage(spent));
        }
        Phase::Failed(service.error(&self.question.model, failure, self.key.as_ref(), self.retry.failed))
    }

    fn notice(&self, failure: &Failure, wait: Duration) -> String {
        let next = self.retry.failed + 1;
        let (name, what, tries) = (&self.question.service.name, &failure.what, self.retry.tries());
        format!("{name}: {what}; trying again in {} s (try {next} of {tries})", wait.as_secs_f64().round())
    }
}

fn content_type(response: &Response) -> &str {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().trim_start()
}

/// An error and its causes, without the address, which may hold what nobody should read.
pub(crate) fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The beginning of a body, as far as it comes in time.
pub(crate) async fn read_some(mut response: Response) -> String {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(piece)) = response.chunk().await {
            body.extend_from_slice(&piece);
            if body.len() > LONGEST_COMPLAINT {
                break;
            }
        }
    };
    // Half a complaint is better than none, so running out of time is no error here.
    let _ = tokio::time::timeout(COMPLAINT_PATIENCE, read).await;
    String::from_utf8_lossy(&body).into_owned()
}
