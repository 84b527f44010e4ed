//! The port to what every model is told before the conversation: who it is, where it works, and what the project and the
//! user have written down for agents.

use std::path::PathBuf;

use futures_util::future::BoxFuture;

use crate::Mode;

pub trait Briefing: Send + Sync + 'static {
    /// Read anew for every turn, so that a changed file counts from the next prompt on.
    fn brief(&self, place: Workplace) -> BoxFuture<'static, String>;
}

/// Where a turn works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workplace {
    pub cwd: PathBuf,
    pub extra_roots: Vec<PathBuf>,
    pub mode: Mode,
}
