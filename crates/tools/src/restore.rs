//! Puts files back to an earlier content, inside the roots, and only where they still hold what is expected.

use domain::CallSite;
use domain::checkpoint::{Restore, Restored};

use crate::change::refuse_git;
use crate::document;
use crate::document::Unwritten;
use crate::tool::Refused;
use process::Stop;
use process::confine::{Bounds, Roots};
use process::fingerprint;

/// Blocks, so it must not run on the thread of an actor.
pub(crate) fn all(steps: Vec<Restore>, site: &CallSite, bounds: &Bounds) -> Vec<Restored> {
    let one = |step: Restore| {
        let left = one(&step, site, bounds).err().map(|Refused(reason)| reason);
        Restored { path: step.path, left }
    };
    steps.into_iter().map(one).collect()
}

fn one(step: &Restore, site: &CallSite, bounds: &Bounds) -> Result<(), Refused> {
    let spot = Roots::open(site, bounds)?.find(&step.path.to_string_lossy())?;
    refuse_git(&spot)?;
    let now = if spot.is_missing() { None } else { Some(document::read(&spot, site)?.bytes) };
    if now.as_deref() != step.from.as_deref().map(str::as_bytes) {
        return Err(Refused("it was changed since".to_owned()));
    }
    let expected = now.as_deref().map(fingerprint::of);
    match (&step.to, expected) {
        (Some(text), expected) => match document::replace(&spot, site, text, expected, &Stop::default()) {
            Ok(()) => Ok(()),
            Err(Unwritten::Surely(reason) | Unwritten::Perhaps(reason)) => Err(Refused(reason)),
        },
        (None, Some(expected)) => Ok(spot.remove(expected, &Stop::default())?),
        (None, None) => Ok(()),
    }
}
