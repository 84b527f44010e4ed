//! `acpd acp`: the bridge that an editor spawns. All of it is in `bridge`.

use crate::bridge;
use crate::commands::Ending;
use crate::paths::Places;

pub fn run(places: &Places) -> anyhow::Result<Ending> {
    bridge::run(places)?;
    Ok(Ending::Done)
}
