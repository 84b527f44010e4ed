//! Restores files to an earlier content, inside the roots, and only if they still have the expected
//! one.

use domain::CallSite;
use domain::checkpoint::{Restore, Restored};
use process::StopFlag;
use process::confine::{AccessLimits, Roots};
use process::fingerprint;

use crate::change::refuse_git;
use crate::document;
use crate::document::WriteFailure;
use crate::tool::RefusalReason;

/// Carries out the steps. Blocks, so it must not run on an actor's thread.
pub(crate) fn all(steps: Vec<Restore>, site: &CallSite, limits: &AccessLimits) -> Vec<Restored> {
    let one = |step: Restore| {
        let left = one(&step, site, limits).err().map(|RefusalReason(reason)| reason);
        Restored { path: step.path, left }
    };
    steps.into_iter().map(one).collect()
}

fn one(step: &Restore, site: &CallSite, limits: &AccessLimits) -> Result<(), RefusalReason> {
    let confined = Roots::open(site, limits)?.find(&step.path.to_string_lossy())?;
    refuse_git(&confined)?;
    let now = if confined.is_missing() { None } else { Some(document::read(&confined, site)?.bytes) };
    if now.as_deref() != step.from.as_deref().map(str::as_bytes) {
        return Err(RefusalReason("it was changed since".to_owned()));
    }
    let expected = now.as_deref().map(fingerprint::of);
    match (&step.to, expected) {
        (Some(text), expected) => match document::replace(&confined, site, text, expected, &StopFlag::default()) {
            Ok(()) => Ok(()),
            Err(WriteFailure::Unchanged(reason) | WriteFailure::Uncertain(reason)) => Err(RefusalReason(reason)),
        },
        (None, Some(expected)) => Ok(confined.remove(expected, &StopFlag::default())?),
        (None, None) => Ok(()),
    }
}
