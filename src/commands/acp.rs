//! `acpd acp`: the bridge that an editor spawns. All of it is in the crate `bridge`. This runs only
//! if the small program of the bridge is not installed beside acpd.

use crate::commands::Ending;
use crate::launch;
use crate::paths::Paths;

pub fn run(places: &Paths, agent: Option<String>) -> anyhow::Result<Ending> {
    bridge::run(places, agent, launch::own_program()?)?;
    Ok(Ending::Done)
}
