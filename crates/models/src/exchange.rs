//! One request and its streamed answer: sends, reads, waits and retries until the answer is
//! complete or has failed.
//!
//! It serves all APIs; `Dialect` has the differences. An answer that breaks off after part of it
//! was emitted is declared void (`Delta::Abandoned`) and requested again, within the same limits.
//! Everything happens inside the stream, so dropping the stream drops the request.

mod reader;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use domain::model::{Delta, ModelError, ModelRequest};
use domain::turn::Usage;
use futures_util::stream::{self, BoxStream, StreamExt};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use tokio::time::Instant;
use tracing::debug;

use self::reader::{ReadProgress, ResponseReader};
use crate::body::{BodySource, EncodedBody};
use crate::conversion::{Accepted, ConvertedMessages};
use crate::failure::{ErrorBody, Failure, RetryAdvice};
use crate::json::Json;
use crate::key::Key;
use crate::limits;
use crate::media::is_about_images;
use crate::remote::Dialect;
use crate::retry::{Retry, retry_after};
use crate::service::{ProviderEndpoint, Service};
use crate::spec::Spec;

const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the user is notified of the remaining time of a long wait.
const COUNTDOWN: Duration = Duration::from_secs(15);

/// The most changes of one request because the provider refuses part of it.
const ADJUSTMENTS: u32 = 3;

/// Turns the events of one answer into deltas.
pub(crate) trait Fold: Send + 'static {
    /// Handles one event. Calls, usage and the stop reason are held back for `finish`.
    fn take(&mut self, event: &str, deltas: &mut VecDeque<Delta>) -> Result<(), Failure>;

    /// Returns whether the answer is complete and nothing more will follow.
    fn is_over(&self) -> bool;

    /// Returns whether the model has reported its stop reason. If so, the answer is complete even
    /// if the stream breaks now.
    fn has_stopped(&self) -> bool;

    fn finish(&mut self, deltas: &mut VecDeque<Delta>);

    /// Returns the tokens used so far.
    fn spent(&self) -> Usage;

    /// Returns whether the answer consists of lines of JSON instead of server-sent events.
    fn is_in_lines(&self) -> bool {
        false
    }
}

/// How a request was changed after a provider's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adjustment {
    /// No change can help.
    Nothing,
    /// This body was changed; later ones need not be.
    Once,
    /// The body was changed, and later ones will be too if the provider accepts it.
    Lasting,
}

impl Adjustment {
    /// Returns a lasting adjustment if something was changed.
    pub(crate) fn lasting(is_changed: bool) -> Self {
        if is_changed { Self::Lasting } else { Self::Nothing }
    }
}

/// A request, and the model and provider that it is for.
pub(crate) struct ExchangeRequest {
    pub(crate) service: Arc<Service>,
    pub(crate) spec: Arc<Spec>,
    pub(crate) request: Arc<ModelRequest>,
}

/// Streams the answer to a request.
pub(crate) fn stream(exchange_request: ExchangeRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
    let retry = Retry::new(exchange_request.service.retry);
    let answer = Exchange {
        exchange_request,
        body: None,
        retry,
        adjusted_for: Vec::new(),
        adjustments: 0,
        rekeyed: false,
        key: None,
        attached: None,
        ready: VecDeque::new(),
        shown: false,
        phase: Phase::Asking,
    };
    stream::unfold(answer, Exchange::next).fuse().boxed()
}

struct Exchange {
    exchange_request: ExchangeRequest,
    /// The last body that was sent, and its API.
    body: Option<(Dialect, SentBody)>,
    retry: Retry,
    /// The refusals that led to changes in this body. They are remembered if the provider accepts
    /// it.
    adjusted_for: Vec<String>,
    adjustments: u32,
    /// Whether the key was looked up again after a refusal.
    rekeyed: bool,
    /// The key of the last request, for error messages.
    key: Option<Key>,
    /// The report about attachments, to be emitted when the request is accepted.
    attached: Option<Delta>,
    /// The deltas that the stream emits next.
    ready: VecDeque<Delta>,
    /// Whether part of the answer was emitted. If so, another request makes it void.
    shown: bool,
    phase: Phase,
}

/// A body as it is kept for another try.
#[derive(Clone)]
enum SentBody {
    /// A short body, or one that was changed after a refusal.
    Bytes(Bytes),
    /// A long body, which is encoded again.
    Source(Arc<BodySource>),
}

enum Phase {
    Asking,
    Waiting {
        until: Instant,
        /// The time of the next notification about the wait.
        shown_at: Instant,
    },
    ResponseReader(Box<ResponseReader>),
    Failed(ModelError),
    Over,
}

impl Exchange {
    async fn next(mut self) -> Option<(Result<Delta, ModelError>, Self)> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                self.shown |= is_of_the_answer(&delta);
                return Some((Ok(delta), self));
            }
            self.phase = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Asking => match self.ask().await {
                    Ok((response, fold)) => {
                        self.ready.extend(self.attached.take());
                        Phase::ResponseReader(Box::new(ResponseReader::new(response, fold)))
                    }
                    Err(failure) => self.after_failure(failure, Usage::default()),
                },
                Phase::Waiting { until, shown_at } => {
                    tokio::time::sleep_until(until.min(shown_at + COUNTDOWN)).await;
                    self.wait_on(until)
                }
                Phase::ResponseReader(mut reading) => {
                    match reading.advance(&mut self.ready, &self.exchange_request.service.timeouts).await {
                        Ok(ReadProgress::More) => Phase::ResponseReader(reading),
                        Ok(ReadProgress::Over) => {
                            reading.drain_in_background();
                            Phase::Over
                        }
                        Err(failure) => self.after_failure(failure, reading.spent()),
                    }
                }
                Phase::Failed(error) => return Some((Err(error), self)),
                Phase::Over => return None,
            };
        }
    }

    /// Sends the request until its answer begins.
    async fn ask(&mut self) -> Result<(Response, Box<dyn Fold>), Failure> {
        let ExchangeRequest { service, spec, request } = &self.exchange_request;
        let (service, spec) = (service.clone(), spec.clone());
        let endpoint = service.reach(&request.environment).await?;
        let dialect = service.dialect(endpoint.base(), &spec);
        let body = self.body(dialect, &endpoint).await?;
        self.key = endpoint.key().cloned();
        let request = service.post(&endpoint, &dialect.path(&spec), body)?.send();
        let response = match tokio::time::timeout(service.timeouts.first(), request).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Failure::unreachable(causes(error))),
            Err(_) => return Err(Failure::stalled(service.timeouts.first())),
        };
        let status = response.status();
        debug!(provider = service.name, model = spec.api_name, status = status.as_u16(), "model answers");
        if !status.is_success() {
            return Err(self.read_refusal(response, &endpoint, dialect).await);
        }
        // Only a change that has helped is worth remembering.
        self.adjusted_for.drain(..).for_each(|refusal| service.note_refused(&endpoint, &spec.api_name, refusal));
        if content_type(&response).starts_with("text/html") {
            return Err(Failure::garbled());
        }
        Ok((response, dialect.fold(&service.name)))
    }

    /// Encodes the body, or returns the last one for another try.
    async fn body(&mut self, dialect: Dialect, endpoint: &ProviderEndpoint) -> Result<EncodedBody, Failure> {
        let unbuilt = || Failure::setting("the request could not be built".to_owned(), "report it");
        match &self.body {
            Some((of, SentBody::Bytes(bytes))) if *of == dialect => return Ok(EncodedBody::Whole(bytes.clone())),
            Some((of, SentBody::Source(source))) if *of == dialect => {
                return source.clone().encode().await.ok_or_else(unbuilt);
            }
            Some(_) | None => {}
        }
        let ExchangeRequest { service, spec, request } = &self.exchange_request;
        let (service, spec) = (service.clone(), spec.clone());
        let (refused, base) = (service.refused(endpoint, &spec.api_name), endpoint.base().to_owned());
        let prepared = service.conversions.prepare(&request.messages, Accepted::by(&spec, dialect)).await;
        let ConvertedMessages { messages, documents, text } = prepared.ok_or_else(unbuilt)?;
        // A body that is built again, for another API, carries the same conversation.
        if documents > 0 && self.body.is_none() {
            self.attached = Some(Delta::DocumentsAsText { documents, bytes: text });
        }
        // Not a changed clone, which would copy the list of messages, too.
        let request = ModelRequest {
            messages,
            system: request.system.clone(),
            tools: request.tools.clone(),
            thought: request.thought,
            environment: request.environment.clone(),
            cache_key: request.cache_key.clone(),
            tool_use: request.tool_use,
        };
        let source = Arc::new(BodySource { dialect, spec, service, base, request });
        let body = if refused.is_empty() {
            source.clone().encode().await
        } else {
            let source = source.clone();
            let changed = tokio::task::spawn_blocking(move || {
                let mut body = source.to_value();
                refused.iter().for_each(|refusal| {
                    dialect.adjust(&mut body, refusal);
                });
                EncodedBody::Whole(Json::from(body).to_bytes())
            });
            changed.await.ok()
        };
        let body = body.ok_or_else(unbuilt)?;
        let sent = match &body {
            EncodedBody::Whole(bytes) => SentBody::Bytes(bytes.clone()),
            EncodedBody::Frames { .. } => SentBody::Source(source),
        };
        self.body = Some((dialect, sent));
        Ok(body)
    }

    async fn read_refusal(&mut self, response: Response, endpoint: &ProviderEndpoint, dialect: Dialect) -> Failure {
        let status = response.status().as_u16();
        let after = retry_after(response.headers(), SystemTime::now());
        let refusal = ErrorBody::read(&read_some(response).await);
        let mut failure = Failure::of_status(status, &refusal, after);
        let service = self.exchange_request.service.clone();
        let speaks_otherwise = matches!(status, 400 | 404 | 405)
            && service.note_dialect(dialect, endpoint.base(), &self.exchange_request.spec.api_name, &refusal);
        // OpenRouter answers 404 if no provider of the model takes images, and llama.cpp 500 if the
        // model takes none.
        let may_adjust =
            matches!(status, 400 | 422) || (matches!(status, 404 | 500) && is_about_images(&refusal.message));
        if speaks_otherwise || (may_adjust && self.adjust(&refusal.message).await) {
            failure.again = RetryAdvice::Changed;
        } else if status == 401 && !self.rekeyed && endpoint.key().is_some() {
            // The output of a key command may have expired. The command runs once more before the
            // user sees an error.
            self.rekeyed = true;
            if service.keys.forget(&self.exchange_request.request.environment).await {
                failure.again = RetryAdvice::Changed;
            }
        }
        failure
    }

    /// Changes the request to avoid the provider's refusal, off the caller's thread. Returns
    /// whether that was possible.
    async fn adjust(&mut self, refusal: &str) -> bool {
        if self.adjustments == ADJUSTMENTS {
            return false;
        }
        let Some((dialect, sent)) = self.body.clone() else { return false };
        let reason = refusal.to_owned();
        let work = tokio::task::spawn_blocking(move || change(dialect, &sent, &reason));
        let Ok(Some((bytes, adjustment))) = work.await else { return false };
        if adjustment == Adjustment::Lasting {
            self.adjusted_for.push(refusal.to_owned());
        }
        self.adjustments += 1;
        self.body = Some((dialect, SentBody::Bytes(bytes)));
        true
    }

    /// Decides whether to retry or to fail.
    fn after_failure(&mut self, mut failure: Failure, spent: Usage) -> Phase {
        self.retry.explain(&mut failure);
        let ExchangeRequest { service, spec, .. } = &self.exchange_request;
        debug!(provider = service.name, model = spec.api_name, what = failure.what, "model request failed");
        let is_partial = self.shown || !self.ready.is_empty();
        if is_partial {
            self.retry.restart_clock();
        }
        let wait = self.retry.next_wait(&failure);
        if let Some(wait) = wait {
            // Deltas that were read and not emitted will come again.
            self.ready.clear();
            if spent != Usage::default() {
                self.ready.push_back(Delta::Usage(spent));
            }
            if std::mem::take(&mut self.shown) {
                self.ready.push_back(Delta::Abandoned);
                self.ready.push_back(Delta::Notice(self.notice(&failure.after_output(), wait)));
            } else if self.retry.deserves_notice(wait) {
                self.ready.push_back(Delta::Notice(self.notice(&failure, wait)));
            }
            let now = Instant::now();
            return Phase::Waiting { until: now + wait, shown_at: now };
        }
        let failure = if is_partial { failure.after_output() } else { failure };
        if spent != Usage::default() {
            self.ready.push_back(Delta::Usage(spent));
        }
        Phase::Failed(service.error(&spec.api_name, failure, self.key.as_ref(), self.retry.failed))
    }

    /// Continues after a wait, or reports how much of it is left.
    fn wait_on(&mut self, until: Instant) -> Phase {
        let now = Instant::now();
        if now >= until {
            return Phase::Asking;
        }
        let (name, left) = (&self.exchange_request.service.name, (until - now).as_secs_f64().ceil());
        self.ready.push_back(Delta::Notice(format!("{name}: trying again in {left} s")));
        Phase::Waiting { until, shown_at: now }
    }

    fn notice(&self, failure: &Failure, wait: Duration) -> String {
        let next = self.retry.failed + 1;
        let (name, what, tries) = (&self.exchange_request.service.name, &failure.what, self.retry.tries());
        let seconds = wait.as_secs_f64().round();
        let when = if seconds > 0.0 { format!("in {seconds} s") } else { "now".to_owned() };
        format!("{name}: {what}; trying again {when} (try {next} of {tries})")
    }
}

/// Changes a body to avoid a refusal, or returns None if no change can help. It takes a while for a
/// long conversation.
fn change(dialect: Dialect, sent: &SentBody, refusal: &str) -> Option<(Bytes, Adjustment)> {
    let mut body = match sent {
        SentBody::Bytes(bytes) => serde_json::from_slice::<Value>(bytes).ok()?,
        SentBody::Source(source) => source.to_value(),
    };
    let adjustment = dialect.adjust(&mut body, refusal);
    debug!(?adjustment, "the provider refuses part of the request");
    if adjustment == Adjustment::Nothing {
        return None;
    }
    Some((Json::from(body).to_bytes(), adjustment))
}

/// Returns whether a delta is part of the answer, which is void if the answer breaks off. Other
/// deltas are about the request.
fn is_of_the_answer(delta: &Delta) -> bool {
    !matches!(delta, Delta::Notice(_) | Delta::DocumentsAsText { .. } | Delta::Usage(_) | Delta::Abandoned)
}

fn content_type(response: &Response) -> &str {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().trim_start()
}

/// Formats an error and its causes without the address, which may hold a secret.
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

/// Reads the beginning of a body, as far as it arrives in time.
pub(crate) async fn read_some(mut response: Response) -> String {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(piece)) = response.chunk().await {
            let room = limits::ERROR_BODY - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() >= room {
                break;
            }
        }
    };
    // A partial error message is better than none, so a timeout is not an error here.
    let _ = tokio::time::timeout(ERROR_BODY_TIMEOUT, read).await;
    String::from_utf8_lossy(&body).into_owned()
}
