//! Takes records from all sessions to the one committer. Started by the `House`, which replaces it if it dies; sessions
//! then submit again what no receipt has covered. It keeps nothing and never waits for the disk.

use std::sync::Arc;

use actix::{Actor, Context, Handler, Message};
use domain::history::{History, Record};

use crate::mail::Obituary;

#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Keep(pub(crate) Record);

pub(crate) struct Historian {
    history: Arc<dyn History>,
    _obituary: Obituary,
}

impl Historian {
    pub(crate) fn new(history: Arc<dyn History>, obituary: Obituary) -> Self {
        Self { history, _obituary: obituary }
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
