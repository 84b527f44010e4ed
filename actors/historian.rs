//! Takes records from all sessions to the one committer. Started by the `Runtime`, which replaces it if it dies; sessions
//! then submit again what no receipt has covered. It keeps nothing and never waits for the disk.

use std::sync::Arc;

use actix::{Actor, Context, Handler, Message};
use domain::history::{History, Record};

use crate::mail::DeathNotice;

#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Keep(pub(crate) Record);

pub(crate) struct Historian {
    history: Arc<dyn History>,
    _death_notice: DeathNotice,
}

impl Historian {
    pub(crate) fn new(history: Arc<dyn History>, death_notice: DeathNotice) -> Self {
        Self { history, _death_notice: death_notice }
    }
}

impl Actor for Historian {
    type Context = Context<Self>;
}

impl Handler<Keep> for Historian {
    type Result = ();

    fn handle(&mut self, Keep(record): Keep, _: &mut Context<Self>) {
        self.history.submit(record);
    }
}
