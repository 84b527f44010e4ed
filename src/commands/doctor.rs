//! `acpd doctor`: checks everything that an installation depends on, and gives advice about
//! problems.
//!
//! It changes nothing, starts no daemon, and prints no secrets. The checks run concurrently, each
//! with a deadline, so a check that hangs costs one line and does not delay the others.

#![allow(clippy::print_stdout, reason = "the findings are printed")]

mod daemon;
mod editors;
mod finding;
mod languages;
mod machine;
mod network;
mod providers;
mod servers;
mod state;

use std::future::Future;
use std::time::Duration;

use anyhow::bail;
use domain::Environment;
use futures_util::FutureExt;
use serde_json::json;
use terminal::style::Colors;

use self::finding::{Finding, State};
use crate::assemble::accounts;
use crate::cli::DoctorArgs;
use crate::commands::Ending;
use crate::commands::json_output::print_indented;
use crate::config::ResolvedNetwork;
use crate::config::{Config, Layers, ShownSetting};
use crate::launch;
use crate::paths::Paths;

/// The deadline of a check, longer than any deadline inside one.
const DEADLINE: Duration = Duration::from_secs(15);

pub fn run(places: &Paths, args: &DoctorArgs) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let findings = runtime.block_on(examine(places));
    // A check that still hangs, for example on an unresponsive disk, is abandoned.
    runtime.shutdown_background();
    let failed = findings.iter().filter(|finding| finding.state == State::Fail).count();
    if args.json {
        print_indented(&json!({ "ok": failed == 0, "checks": findings }));
    } else {
        let colors = Colors::stdout();
        findings.iter().for_each(|finding| println!("{}", finding.render(colors)));
    }
    match failed {
        0 => Ok(Ending::Done),
        1 => bail!("one check failed"),
        _ => bail!("{failed} checks failed"),
    }
}

async fn examine(places: &Paths) -> Vec<Finding> {
    let path = std::env::var("PATH").ok();
    let (configuration, config) = configuration(places);
    let (config, overview) = config.map_or((None, Vec::new()), |(config, overview)| (Some(config), overview));
    let state = within(
        "state",
        aside({
            let places = places.clone();
            move || vec![state::check(&places)]
        }),
    )
    .await;
    let is_writable = !state.iter().any(Finding::is_failure);
    // The daemon refuses to start if [models] is inconsistent, even if it can be parsed.
    let has_models = config.as_ref().is_none_or(|config| accounts::providers(places, config).is_ok());
    let obstacles = [(config.is_none(), "config"), (!is_writable, "state"), (!has_models, "models")];
    let obstacle = obstacles.into_iter().find(|(is, _)| *is);
    let obstacle = obstacle.map(|(_, check)| check);
    let shell = async { machine::ask_login_shell(places).await }.shared();
    let network = async {
        let Some(config) = &config else { return Vec::new() };
        let answered = shell.clone().await.environment.unwrap_or_default();
        let here = launch::environment().collect();
        ::network::install(ResolvedNetwork::of(&config.network, &Environment::default(), &answered).network);
        vec![network::check(&config.network, &here, &answered)]
    };
    let network = within("network", network).shared();
    let providers = async {
        let Some(config) = &config else { return Vec::new() };
        // Keys are in the state folder; without it every provider would report the same problem.
        if !is_writable && !places.state.is_dir() {
            return vec![Finding::warn("models", "the stored keys cannot be read", "see `state` above")];
        }
        network.clone().await;
        providers::check(places, config).await
    };
    let daemon = async {
        let systemd = machine::Systemd::look(places).await;
        let known = daemon::EarlierFindings { obstacle, is_activated: systemd.is_listening(), is_writable };
        let mut findings = daemon::check(places, &known).await;
        findings.push(systemd.finding(obstacle));
        findings
    };
    let (daemon, network, providers, shell, landlock, editors) = tokio::join!(
        within("daemon", daemon),
        network.clone(),
        within("models", providers),
        within("shell", async { vec![machine::login_shell(&shell.clone().await)] }),
        within("landlock", aside(|| vec![machine::landlock()])),
        within(
            "editors",
            aside({
                let (places, path) = (places.clone(), path.clone());
                move || editors::check(&places, path.as_deref())
            })
        ),
    );
    let (systemd, daemon): (Vec<_>, Vec<_>) = daemon.into_iter().partition(|finding| finding.check == "systemd");
    let mut findings = vec![machine::program(path.as_deref()), configuration];
    findings.extend([state, daemon, network, providers].into_iter().flatten());
    findings.extend(servers::check(&overview, path.as_deref()));
    let languages = config
        .as_ref()
        .map(|config| languages::check(&config.diagnostics, &config.mcp.trusted_projects, path.as_deref()));
    findings.extend(languages);
    findings.extend([landlock, shell, systemd, editors].into_iter().flatten());
    findings
}

fn configuration(places: &Paths) -> (Finding, Option<(Config, Vec<ShownSetting>)>) {
    let path = places.config.display();
    let read = Layers::read(&places.config, launch::environment(), &[]);
    let checked = read.and_then(|layers| {
        let config = layers.check()?;
        acpd_http::check_files(&config.http)?;
        Ok((config, layers.overview()))
    });
    match checked {
        Ok(found) => {
            let missing = if places.config.exists() { "" } else { " (does not exist; the defaults apply)" };
            (Finding::ok("config", format!("{path}{missing}")), Some(found))
        }
        Err(error) => {
            let advice = "fix it: no daemon can start with it, and a running one keeps its old configuration; all keys: acpd config defaults";
            (Finding::fail("config", format!("{error:#}"), advice), None)
        }
    }
}

async fn within(check: &'static str, findings: impl Future<Output = Vec<Finding>>) -> Vec<Finding> {
    match tokio::time::timeout(DEADLINE, findings).await {
        Ok(findings) => findings,
        Err(_) => {
            let says = format!("the check did not end within {} seconds", DEADLINE.as_secs());
            vec![Finding::fail(check, says, "something that it checks hangs, such as a disk or a server")]
        }
    }
}

/// Runs a check on its own thread, because it accesses the disk or the kernel.
async fn aside(check: impl FnOnce() -> Vec<Finding> + Send + 'static) -> Vec<Finding> {
    tokio::task::spawn_blocking(check).await.unwrap_or_default()
}
