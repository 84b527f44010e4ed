//! The whole of the actors behind one handle: starts the `Directory` and the `Historian`, replaces them if they die,
//! spreads sessions and connections over the arbiters, and is what the program holds on to.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::{Actor, Addr, ArbiterHandle};
use domain::Millis;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};

use crate::connection::{Connection, Peer};
use crate::directory::{Directory, Drain, HistorianReplaced};
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
    stop: watch::Sender<bool>,
    started: Millis,
}

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
            stop: watch::Sender::new(false),
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

    /// Resolves when a client asked the daemon to stop.
    pub async fn stop_requested(&self) {
        let mut stop = self.0.stop.subscribe();
        // The sender lives in self, so this cannot end early.
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// No new turns; running ones are cancelled and recorded; every session is put away clean.
    pub fn drain(&self, deadline: Duration) -> impl Future<Output = ()> + use<> {
        let drained = self.directory().send(Drain);
        async move {
            if !matches!(tokio::time::timeout(deadline, drained).await, Ok(Ok(()))) {
                tracing::warn!("some sessions were not put away in time; they are repaired when they are opened again");
            }
        }
    }

    pub(crate) fn request_stop(&self) {
        self.0.stop.send_replace(true);
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
