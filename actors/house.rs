//! The whole of the actors behind one handle: starts the `Directory` and the `Historian`, replaces them if they die,
//! spreads sessions and connections over the arbiters, and is what the program holds on to.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::{Actor, Addr, ArbiterHandle};
use domain::Millis;
use domain::card::{Activity, SessionCard};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};

use crate::connection::{Connection, Peer};
use crate::directory::{Describe, Directory, Drain, HistorianReplaced};
use crate::historian::Historian;
use crate::mail::{Obituary, Reach, tell};
use crate::ports::Ports;

#[derive(Clone)]
pub struct House(Arc<Rooms>);

struct Rooms {
    ports: Ports,
    directory: Reach<Directory>,
    historian: Reach<Historian>,
    arbiters: Vec<ArbiterHandle>,
    next_arbiter: AtomicUsize,
    farewell: watch::Sender<Option<Farewell>>,
    /// True once the daemon leaves for good. Whoever must be told holds a receiver until that is done.
    leaving: watch::Sender<bool>,
    /// True once all sessions have been put away. Whoever has something left to say holds a receiver until it is said.
    drained: watch::Sender<bool>,
    started: Millis,
}

/// How a client wants the daemon to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    Stop,
    /// To come back as the installed program; not before the running turns have ended, unless `now`.
    Restart {
        now: bool,
    },
}

/// How long clients may take to hear the last words of their sessions.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Between two looks at whether a turn still runs.
const LOOK: Duration = Duration::from_millis(20);

/// The actors of which there is one, and which must always be there.
#[derive(Clone, Copy, Debug)]
enum Post {
    Directory,
    Historian,
}

impl House {
    /// Must be called inside an actix system. Without arbiters everything runs on the current one.
    pub fn open(ports: Ports, mut arbiters: Vec<ArbiterHandle>) -> House {
        if arbiters.is_empty() {
            arbiters.push(actix::Arbiter::current());
        }
        let (deaths, mut vacancies) = mpsc::unbounded_channel();
        let house = House(Arc::new(Rooms {
            directory: Reach::new(start_directory(&ports, &deaths)),
            historian: Reach::new(start_historian(&ports, &deaths)),
            ports,
            arbiters,
            next_arbiter: AtomicUsize::new(0),
            farewell: watch::Sender::new(None),
            leaving: watch::Sender::new(false),
            drained: watch::Sender::new(false),
            started: Millis::now(),
        }));
        let rooms = Arc::downgrade(&house.0);
        actix::spawn(async move {
            while let Some(post) = vacancies.recv().await {
                let Some(rooms) = rooms.upgrade() else { return };
                House(rooms).fill(post, &deaths);
            }
        });
        house
    }

    fn fill(&self, post: Post, deaths: &mpsc::UnboundedSender<Post>) {
        tracing::error!(?post, "an actor that must always be there died; starting another");
        match post {
            Post::Directory => self.0.directory.replace(start_directory(&self.0.ports, deaths)),
            Post::Historian => {
                self.0.historian.replace(start_historian(&self.0.ports, deaths));
                tell(&self.directory(), HistorianReplaced);
            }
        }
    }

    /// Starts a connection over this pair and returns at once. It ends when the reader does.
    pub fn connect<R, W>(&self, reader: R, writer: W, peer: Peer)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let house = self.clone();
        Connection::start_in_arbiter(&self.arbiter(), move |ctx| Connection::new(house, peer, reader, writer, ctx));
    }

    /// Resolves when it is time to leave as a client asked: at once, or, for a restart that can wait, when the running
    /// turns have ended or `patience` is over.
    pub async fn farewell(&self, patience: Duration) -> Farewell {
        let mut wishes = self.0.farewell.subscribe();
        loop {
            // The sender lives in self, so neither wait can end early.
            let wish = wishes.wait_for(Option::is_some).await.ok().and_then(|wish| *wish);
            let Some(wish) = wish else { return std::future::pending().await };
            match wish {
                Farewell::Stop | Farewell::Restart { now: true } => return wish,
                Farewell::Restart { now: false } => {}
            }
            tokio::select! {
                () = self.calm() => return wish,
                () = tokio::time::sleep(patience) => {
                    tracing::warn!("some turns did not end in time for the restart; they are cancelled");
                    return wish;
                }
                // Somebody is in more of a hurry.
                _ = wishes.changed() => {}
            }
        }
    }

    /// Resolves when no turn runs.
    async fn calm(&self) {
        loop {
            let overview = self.directory().send(Describe).await;
            let running = |card: &SessionCard| card.state != Activity::Idle;
            if overview.is_ok_and(|overview| !overview.sessions.iter().any(running)) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Tells the bridges that the daemon leaves on purpose, so that none of them brings another back by itself. Resolves
    /// when all have been told, or after the deadline: one of them may not be reading.
    pub async fn say_goodbye(&self, deadline: Duration) {
        self.0.leaving.send_replace(true);
        if tokio::time::timeout(deadline, self.0.leaving.closed()).await.is_err() {
            tracing::debug!("some bridges were not told in time that the daemon leaves");
        }
    }

    pub(crate) fn leaving(&self) -> watch::Receiver<bool> {
        self.0.leaving.subscribe()
    }

    pub(crate) fn drained(&self) -> watch::Receiver<bool> {
        self.0.drained.subscribe()
    }

    /// No new turns; running ones are cancelled and recorded; every session is put away clean; and clients that read are
    /// told of it.
    pub fn drain(&self, deadline: Duration) -> impl Future<Output = ()> + use<> {
        let drained = self.directory().send(Drain);
        let house = self.clone();
        async move {
            if !matches!(tokio::time::timeout(deadline, drained).await, Ok(Ok(()))) {
                tracing::warn!("some sessions were not put away in time; they are repaired when they are opened again");
            }
            house.0.drained.send_replace(true);
            if tokio::time::timeout(LAST_WORDS, house.0.drained.closed()).await.is_err() {
                tracing::debug!("some clients did not hear in time how their turns ended");
            }
        }
    }

    pub(crate) fn request(&self, farewell: Farewell) {
        self.0.farewell.send_if_modified(|wish| wish.replace(farewell) != Some(farewell));
    }

    /// Whether the daemon is about to leave, so that no new turns begin.
    pub(crate) fn is_leaving(&self) -> bool {
        self.0.farewell.borrow().is_some()
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.0.ports
    }

    pub(crate) fn directory(&self) -> Addr<Directory> {
        self.0.directory.get()
    }

    pub(crate) fn historian(&self) -> Reach<Historian> {
        self.0.historian.clone()
    }

    pub(crate) fn started(&self) -> Millis {
        self.0.started
    }

    /// The arbiters take turns.
    pub(crate) fn arbiter(&self) -> ArbiterHandle {
        let turn = self.0.next_arbiter.fetch_add(1, Ordering::Relaxed);
        self.0.arbiters[turn % self.0.arbiters.len()].clone()
    }
}

fn start_directory(ports: &Ports, deaths: &mpsc::UnboundedSender<Post>) -> Addr<Directory> {
    Directory::new(ports.history.clone(), obituary(deaths, Post::Directory)).start()
}

fn start_historian(ports: &Ports, deaths: &mpsc::UnboundedSender<Post>) -> Addr<Historian> {
    Historian::new(ports.history.clone(), obituary(deaths, Post::Historian)).start()
}

fn obituary(deaths: &mpsc::UnboundedSender<Post>, post: Post) -> Obituary {
    let deaths = deaths.clone();
    Obituary::new(move |_| {
        // Nobody listens any more when the house itself is gone.
        let _ = deaths.send(post);
    })
}
