//! A model that answers from a script, step by step, and remembers its requests.
//!
//! Clones share their state, so a test keeps one as its handle while the daemon uses the other.
//! Nothing is added to an answer: a stream has exactly the written steps and then ends, so a test
//! that wants a stop reason writes one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::model::{Delta, Model, ModelError, ModelInfo, ModelRequest};
use domain::turn::FailureKind;
use domain::{ModelId, StopReason, Usage};
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

/// One step of a scripted answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Text(String),
    Thought(String),
    Call {
        tool: String,
        input: Value,
    },
    /// Announces a call with what is known of it at this point.
    BeginCall {
        place: usize,
        tool: String,
        detail: Option<String>,
    },
    Usage(Usage),
    /// Reports why the answer ends, and ends it.
    Stop(StopReason),
    /// Fails, and ends the answer.
    Fail(ModelError),
    /// Panics inside the stream.
    Panic,
    /// Waits until the test calls `Script::release`.
    Hold,
    /// Streams text forever, and yields between the pieces.
    Endless,
}

impl Step {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub fn thought(text: impl Into<String>) -> Self {
        Self::Thought(text.into())
    }

    pub fn call(tool: impl Into<String>, input: Value) -> Self {
        Self::Call { tool: tool.into(), input }
    }

    pub fn begin_call(place: usize, tool: impl Into<String>, detail: Option<&str>) -> Self {
        Self::BeginCall { place, tool: tool.into(), detail: detail.map(str::to_owned) }
    }

    /// Returns the usual last step.
    pub fn end() -> Self {
        Self::Stop(StopReason::EndTurn)
    }
}

#[derive(Clone)]
pub struct Script(Arc<Shared>);

struct Shared {
    info: ModelInfo,
    answers: Mutex<VecDeque<Vec<Step>>>,
    requests: Mutex<Vec<ModelRequest>>,
    /// Each permit releases one `Hold`.
    gate: Semaphore,
    counts: watch::Sender<Counts>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    asked: usize,
    held: usize,
    dropped: usize,
}

impl Script {
    /// Creates a model that answers each request with the next of the answers. A surplus request
    /// gets an error.
    pub fn new(id: &str, answers: Vec<Vec<Step>>) -> Self {
        let info = ModelInfo {
            id: ModelId::from(id),
            name: format!("Script {id}"),
            window: 200_000,
            images: true,
            audio: true,
            thinks: true,
            patches: false,
            price: None,
        };
        Self::described(info, answers)
    }

    /// Creates a model with this description.
    pub fn described(info: ModelInfo, answers: Vec<Vec<Step>>) -> Self {
        Self(Arc::new(Shared {
            info,
            answers: Mutex::new(answers.into()),
            requests: Mutex::default(),
            gate: Semaphore::new(0),
            counts: watch::Sender::default(),
        }))
    }

    /// Returns the description of the model.
    pub fn info(&self) -> &ModelInfo {
        &self.0.info
    }

    /// Adds an answer after the remaining ones.
    pub fn push(&self, answer: Vec<Step>) {
        lock(&self.0.answers).push_back(answer);
    }

    /// Returns every request so far, oldest first.
    pub fn requests(&self) -> Vec<ModelRequest> {
        lock(&self.0.requests).clone()
    }

    /// Returns the number of answers that are left.
    pub fn unused(&self) -> usize {
        lock(&self.0.answers).len()
    }

    /// Releases one `Hold`: a waiting one, or else the next.
    pub fn release(&self) {
        self.0.gate.add_permits(1);
    }

    /// Returns the number of streams that were dropped before their last step.
    pub fn dropped(&self) -> usize {
        self.0.counts.borrow().dropped
    }

    /// Waits until the model has had `times` requests in total.
    pub async fn until_asked(&self, times: usize) {
        self.until(|counts| counts.asked >= times).await;
    }

    /// Waits until `times` steps of `Hold` were reached in total.
    pub async fn until_held(&self, times: usize) {
        self.until(|counts| counts.held >= times).await;
    }

    /// Waits until `times` streams were dropped early in total.
    pub async fn until_dropped(&self, times: usize) {
        self.until(|counts| counts.dropped >= times).await;
    }

    async fn until(&self, reached: impl FnMut(&Counts) -> bool) {
        // `self` owns the sender, so the channel cannot close during the wait.
        let _ = self.0.counts.subscribe().wait_for(reached).await;
    }
}

impl Model for Script {
    fn info(&self) -> &ModelInfo {
        &self.0.info
    }

    fn respond(&self, request: ModelRequest) -> BoxStream<'static, Result<Delta, ModelError>> {
        lock(&self.0.requests).push(request);
        let answer = lock(&self.0.answers).pop_front();
        let steps = answer.unwrap_or_else(|| vec![Step::Fail(exhausted(&self.0.info))]);
        self.0.counts.send_modify(|counts| counts.asked += 1);
        let stream = ScriptedStream { shared: self.0.clone(), steps: steps.into() };
        stream::unfold(stream, ScriptedStream::next).boxed()
    }
}

fn exhausted(info: &ModelInfo) -> ModelError {
    ModelError {
        kind: FailureKind::Model,
        message: format!("the script {} has no answer left", info.id),
        data: Value::Null,
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every operation leaves the list consistent, so a panic elsewhere does no harm.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running answer. It counts as dropped if steps are left when it is dropped.
struct ScriptedStream {
    shared: Arc<Shared>,
    steps: VecDeque<Step>,
}

impl ScriptedStream {
    async fn next(mut self) -> Option<(Result<Delta, ModelError>, Self)> {
        loop {
            let delta = match self.steps.front()?.clone() {
                Step::Hold => {
                    self.hold().await;
                    self.steps.pop_front();
                    continue;
                }
                Step::Endless => {
                    tokio::task::yield_now().await;
                    return Some((Ok(Delta::Text("and so on ".to_owned())), self));
                }
                Step::Panic => {
                    self.steps.clear();
                    panic!("the script says so");
                }
                Step::Stop(reason) => {
                    self.steps.clear();
                    return Some((Ok(Delta::Stopped(reason)), self));
                }
                Step::Fail(error) => {
                    self.steps.clear();
                    return Some((Err(error), self));
                }
                Step::Text(text) => Delta::Text(text),
                Step::Thought(text) => Delta::Thought(text),
                Step::Call { tool, input } => Delta::Call { tool, input, origin: None },
                Step::BeginCall { place, tool, detail } => Delta::CallBegun { place, tool, detail },
                Step::Usage(usage) => Delta::Usage(usage),
            };
            self.steps.pop_front();
            return Some((Ok(delta), self));
        }
    }

    async fn hold(&self) {
        self.shared.counts.send_modify(|counts| counts.held += 1);
        if let Ok(permit) = self.shared.gate.acquire().await {
            permit.forget();
        }
    }
}

impl Drop for ScriptedStream {
    fn drop(&mut self) {
        if !self.steps.is_empty() {
            self.shared.counts.send_modify(|counts| counts.dropped += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;

    fn request(system: &str) -> ModelRequest {
        ModelRequest {
            system: system.to_owned(),
            messages: vec![],
            tools: vec![],
            thought: Default::default(),
            environment: Arc::default(),
            cache_key: String::new(),
            tool_use: domain::model::ToolUse::Allowed,
        }
    }

    async fn whole(script: &Script) -> Vec<Result<Delta, ModelError>> {
        script.respond(request("")).collect().await
    }

    #[tokio::test]
    async fn each_request_takes_the_next_answer() {
        let script = Script::new("s", vec![vec![Step::text("one"), Step::end()]]);
        script.push(vec![
            Step::thought("hm"),
            Step::call("bash", json!({"command": "ls"})),
            Step::Usage(Usage::default()),
        ]);
        assert_eq!(script.unused(), 2);
        assert_eq!(whole(&script).await, [Ok(Delta::Text("one".to_owned())), Ok(Delta::Stopped(StopReason::EndTurn))]);
        assert_eq!(
            whole(&script).await,
            [
                Ok(Delta::Thought("hm".to_owned())),
                Ok(Delta::Call { tool: "bash".to_owned(), input: json!({"command": "ls"}), origin: None }),
                Ok(Delta::Usage(Usage::default())),
            ]
        );
        assert_eq!(script.dropped(), 0);
    }

    #[tokio::test]
    async fn one_request_too_many_gets_an_error_that_names_the_limit() {
        let script = Script::new("short", vec![]);
        let answer = whole(&script).await;
        let [Err(error)] = &answer[..] else { panic!("{answer:?}") };
        assert_eq!(error.to_string(), "the script short has no answer left");
    }

    #[tokio::test]
    async fn a_clone_records_requests_for_the_original() {
        let script = Script::new("s", vec![vec![], vec![]]);
        let at_work = script.clone();
        let _ = at_work.respond(request("first"));
        let _ = at_work.respond(request("second"));
        script.until_asked(2).await;
        let systems: Vec<_> = script.requests().into_iter().map(|request| request.system).collect();
        assert_eq!(systems, ["first", "second"]);
    }

    #[tokio::test]
    async fn a_hold_waits_for_its_release() {
        let script = Script::new("s", vec![vec![Step::Hold, Step::text("go")]]);
        let mut answer = script.respond(request(""));
        assert!(answer.next().now_or_never().is_none());
        script.until_held(1).await;
        script.release();
        assert_eq!(answer.next().await, Some(Ok(Delta::Text("go".to_owned()))));
    }

    #[tokio::test]
    async fn a_release_that_comes_first_counts_for_the_next_hold() {
        let script = Script::new("s", vec![vec![Step::Hold, Step::Hold, Step::text("go")]]);
        script.release();
        script.release();
        assert_eq!(whole(&script).await, [Ok(Delta::Text("go".to_owned()))]);
    }

    #[tokio::test]
    async fn a_stream_dropped_early_is_counted_even_while_it_holds() {
        let held = vec![Step::text("a"), Step::Hold];
        let script = Script::new("s", vec![held.clone(), held.clone(), vec![Step::text("all")]]);
        drop(script.respond(request("")));
        let mut answer = script.respond(request(""));
        assert!(answer.next().await.is_some());
        assert!(answer.next().now_or_never().is_none());
        drop(answer);
        let mut answer = script.respond(request(""));
        assert!(answer.next().await.is_some());
        drop(answer);
        script.until_dropped(2).await;
        assert_eq!(script.dropped(), 2);
    }

    #[tokio::test]
    async fn nothing_follows_a_stop_or_a_failure() {
        let error = ModelError { kind: FailureKind::Model, message: "overloaded".to_owned(), data: Value::Null };
        let script = Script::new(
            "s",
            vec![vec![Step::end(), Step::text("late")], vec![Step::Fail(error.clone()), Step::text("late")]],
        );
        assert_eq!(whole(&script).await, [Ok(Delta::Stopped(StopReason::EndTurn))]);
        assert_eq!(whole(&script).await, [Err(error)]);
    }

    #[tokio::test]
    async fn a_panic_happens_inside_the_stream() {
        let script = Script::new("s", vec![vec![Step::text("a"), Step::Panic]]);
        let mut answer = script.respond(request(""));
        assert!(answer.next().await.is_some());
        assert!(AssertUnwindSafe(answer.next()).catch_unwind().await.is_err());
        assert_eq!(script.dropped(), 0);
    }

    #[tokio::test]
    async fn an_endless_answer_lets_others_run() {
        let script = Script::new("s", vec![vec![Step::Endless]]);
        let mut answer = script.respond(request(""));
        assert!(answer.next().now_or_never().is_none());
        for _ in 0..100 {
            assert!(answer.next().await.is_some());
        }
        drop(answer);
        assert_eq!(script.dropped(), 1);
    }
}
