//! `acpd acp`: the bridge that an editor spawns. All of it is in `bridge`.

use crate::bridge;
use crate::commands::Ending;
use crate::paths::Places;

pub fn run(places: &Places, agent: Option<String>) -> anyhow::Result<Ending> {
    bridge::run(places, agent)?;
    Ok(Ending::Done)
}
