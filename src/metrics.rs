//! Metrics for Prometheus: turns, tool calls, tokens and commits, and how long they take.
//!
//! A session is a log of events, and all of them pass through the history port. They are counted
//! there, by a `Metered` history in front of the real one; no other part of the daemon knows about
//! metrics. Gauges (sessions, connections, queued bytes) are read when the metrics are requested.

mod session_timing;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use acpd_actors::Overview;
use domain::history::{
    CommitLevel, History, HistoryError, ListQuery, Page, Receipt, Record, RecordEntry, SessionMeta, StoreStatus,
};
use domain::{Event, SessionId, Usage};
use futures_util::future::BoxFuture;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use self::session_timing::{Fact, SessionTimings};

/// Buckets for turns and tools: from 10 ms to an hour.
const LONG: [f64; 12] = [0.01, 0.05, 0.25, 1.0, 2.5, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3600.0];
/// Buckets for the time to the first word of an answer and for commits: from half a millisecond to
/// a minute.
const SHORT: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 10.0, 60.0];

/// How many tool names get their own label. A model may call any name.
const TOOLS: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Transport {
    transport: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct End {
    end: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tool {
    tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolEnd {
    tool: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

pub struct Metrics {
    registry: Registry,
    timings: Mutex<SessionTimings>,
    /// Held while the gauges are set and written, so concurrent requests do not mix their values.
    gauges: Mutex<Gauges>,
    turns: Family<End, Counter>,
    turn_time: Histogram,
    first_token_time: Histogram,
    tool_calls: Family<ToolEnd, Counter>,
    tool_time: Durations<Tool>,
    tools_known: Mutex<std::collections::HashSet<String>>,
    tokens: Family<Kind, Counter>,
    commits: Family<Outcome, Counter>,
    commit_time: Histogram,
    commit_queue: Gauge,
}

#[derive(Default)]
struct Gauges {
    sessions: Family<State, Gauge>,
    connections: Family<Transport, Gauge>,
    outbox: Gauge<u64, AtomicU64>,
}

fn long() -> Histogram {
    Histogram::new(LONG)
}

impl Metrics {
    pub fn new() -> Arc<Self> {
        let metrics = Self {
            registry: Registry::with_prefix("acpd"),
            timings: Mutex::default(),
            gauges: Mutex::default(),
            turns: Family::default(),
            turn_time: long(),
            first_token_time: Histogram::new(SHORT),
            tool_calls: Family::default(),
            tool_time: Family::new_with_constructor(long),
            tools_known: Mutex::default(),
            tokens: Family::default(),
            commits: Family::default(),
            commit_time: Histogram::new(SHORT),
            commit_queue: Gauge::default(),
        };
        Arc::new(metrics.registered())
    }

    fn registered(mut self) -> Self {
        let gauges = self.gauges.get_mut().unwrap_or_else(PoisonError::into_inner);
        let to = &mut self.registry;
        to.register("build", "The program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        to.register("sessions", "Sessions in memory by state", gauges.sessions.clone());
        to.register("connections", "Clients by transport", gauges.connections.clone());
        to.register_with_unit("outbox", "Bytes that clients have not read yet", Unit::Bytes, gauges.outbox.clone());
        to.register("turns", "Turns by how they ended", self.turns.clone());
        to.register_with_unit("turn_duration", "From a turn's start to its end", Unit::Seconds, self.turn_time.clone());
        let first = self.first_token_time.clone();
        to.register_with_unit(
            "first_token",
            "From a turn's start to the first text of its answer",
            Unit::Seconds,
            first,
        );
        to.register("tool_calls", "Tool calls by tool and outcome", self.tool_calls.clone());
        to.register_with_unit("tool_duration", "From a tool's start to its end", Unit::Seconds, self.tool_time.clone());
        to.register("tokens", "Tokens by kind", self.tokens.clone());
        to.register("commits", "Records by outcome", self.commits.clone());
        let commit = self.commit_time.clone();
        to.register_with_unit("commit_duration", "From a record's submission to its receipt", Unit::Seconds, commit);
        to.register("commit_queue", "Records that wait for their receipt", self.commit_queue.clone());
        self
    }

    /// Returns all metrics in the text format. `unread` is the number of bytes that wait outside
    /// the outboxes.
    pub fn text(&self, overview: &Overview, unread: u64) -> Result<String, fmt::Error> {
        let gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.sessions.clear();
        for state in ["idle", "running", "waiting"] {
            gauges.sessions.get_or_create(&State { state }).set(0);
        }
        for card in &overview.sessions {
            gauges.sessions.get_or_create(&State { state: card.state.name() }).inc();
        }
        gauges.connections.clear();
        for card in &overview.connections {
            gauges.connections.get_or_create(&Transport { transport: card.transport.clone() }).inc();
        }
        gauges.outbox.set(unread + overview.connections.iter().map(|card| card.outbox).sum::<u64>());
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn note(&self, session: &SessionId, events: &[Arc<Event>]) {
        let facts = self.timings.lock().unwrap_or_else(PoisonError::into_inner).follow(session, events);
        for fact in facts {
            self.count(fact);
        }
    }

    fn count(&self, fact: Fact) {
        match fact {
            Fact::TurnEnded { end, took } => {
                self.turns.get_or_create(&End { end }).inc();
                took.iter().for_each(|took| self.turn_time.observe(took.as_secs_f64()));
            }
            Fact::FirstToken { after } => self.first_token_time.observe(after.as_secs_f64()),
            Fact::ToolEnded { tool, outcome, took } => {
                let tool = self.known(tool);
                self.tool_calls.get_or_create(&ToolEnd { tool: tool.clone(), outcome }).inc();
                if let Some(took) = took {
                    self.tool_time.get_or_create(&Tool { tool }).observe(took.as_secs_f64());
                }
            }
            Fact::Used(Usage { input, output, cached_read, cached_write, thought }) => {
                let kinds = [
                    ("input", input),
                    ("output", output),
                    ("cached_read", cached_read),
                    ("cached_write", cached_write),
                    ("thought", thought),
                ];
                for (kind, tokens) in kinds {
                    self.tokens.get_or_create(&Kind { kind }).inc_by(tokens);
                }
            }
        }
    }

    fn known(&self, tool: String) -> String {
        let mut known = self.tools_known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TOOLS && !known.contains(&tool) {
            return "other".to_owned();
        }
        known.insert(tool.clone());
        tool
    }

    fn settled(&self, took: Duration, result: &Result<CommitLevel, HistoryError>) {
        let outcome = match result {
            Ok(CommitLevel::Written) => "written",
            Ok(CommitLevel::Synced) => "synced",
            Err(_) => "failed",
        };
        self.commits.get_or_create(&Outcome { outcome }).inc();
        self.commit_time.observe(took.as_secs_f64());
        self.commit_queue.dec();
    }
}

/// A history that counts the records that pass through it.
pub struct Metered {
    history: Arc<dyn History>,
    metrics: Arc<Metrics>,
}

impl Metered {
    pub fn new(history: Arc<dyn History>, metrics: Arc<Metrics>) -> Self {
        Self { history, metrics }
    }
}

impl History for Metered {
    fn submit(&self, record: Record) {
        let Record { session, entry, receipt } = record;
        match &entry {
            RecordEntry::Append { events, meta } => {
                self.metrics.note(&session, events);
                if meta.clean {
                    self.forget(&session);
                }
            }
            // Copied records were counted when they were first written.
            RecordEntry::Prepare { .. } | RecordEntry::Copy { .. } => {}
            RecordEntry::Delete => self.forget(&session),
        }
        self.metrics.commit_queue.inc();
        let (metrics, began) = (self.metrics.clone(), Instant::now());
        let receipt = Receipt::new(move |result| {
            metrics.settled(began.elapsed(), &result);
            receipt.resolve(result);
        });
        self.history.submit(Record { session, entry, receipt });
    }

    fn read(
        &self,
        session: SessionId,
        from: u64,
        budget: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Event>>, HistoryError>> {
        self.history.read(session, from, budget)
    }

    fn find(&self, session: SessionId) -> BoxFuture<'static, Result<Option<SessionMeta>, HistoryError>> {
        self.history.find(session)
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'static, Result<Page, HistoryError>> {
        self.history.list(query)
    }

    fn leftovers(&self) -> BoxFuture<'static, Result<Vec<SessionId>, HistoryError>> {
        self.history.leftovers()
    }

    fn status(&self) -> StoreStatus {
        self.history.status()
    }
}

impl Metered {
    fn forget(&self, session: &SessionId) {
        self.metrics.timings.lock().unwrap_or_else(PoisonError::into_inner).forget(session);
    }
}
