//! `acpd config`: shows the effective settings with their sources, prints the path of the file, and
//! checks the file.

#![allow(clippy::print_stdout, reason = "the answer is printed")]

use std::path::Path;

use domain::Environment;
use terminal::style::{Colors, Style, visible_text};

use crate::cli::{ConfigAction, ConfigArgs};
use crate::commands::Ending;
use crate::commands::json_output::print_indented;
use crate::config::ResolvedNetwork;
use crate::config::{self, Layers, ShownSetting};
use crate::daemon::login_shell;
use crate::paths::Paths;
use crate::{assemble, launch};

pub fn run(places: &Paths, args: &ConfigArgs) -> anyhow::Result<Ending> {
    match &args.action {
        ConfigAction::Show { changed, json } => show(places, *changed, *json)?,
        ConfigAction::Path => println!("{}", places.config.display()),
        ConfigAction::Check { file } => check(places, file.as_deref())?,
        ConfigAction::Defaults => print!("{}", config::DEFAULTS),
    }
    Ok(Ending::Done)
}

fn show(places: &Paths, changed: bool, json: bool) -> anyhow::Result<()> {
    let layers = Layers::read(&places.config, launch::environment(), &[])?;
    let config = layers.check()?;
    let mut overview = layers.overview();
    outbound(places, &config)?.describe(&mut overview);
    overview.retain(|shown| !changed || shown.source != "default");
    if json {
        print_indented(&overview);
        return Ok(());
    }
    if overview.is_empty() {
        println!("every key has its default value; `acpd config defaults` prints all keys");
    }
    print!("{}", render(&overview, places, Colors::stdout()));
    let local = variables_of_serve(launch::environment().map(|(name, _)| name));
    if !local.is_empty() {
        eprintln!(
            "\nnote: this environment has {}, which `acpd serve` started from here uses, and a daemon that an editor, \
             `acpd ask` or systemd starts does not",
            local.join(", ")
        );
    }
    eprintln!(
        "\nnote: what a project's .acpd/config.toml adds is per session and not shown here; see `acpd ctl permissions ID`"
    );
    Ok(())
}

/// Returns the proxy and certificates of a daemon that an editor starts. The login shell is run
/// only if its environment may matter.
fn outbound(places: &Paths, config: &config::Config) -> anyhow::Result<ResolvedNetwork> {
    let nothing = Environment::default();
    let known = ResolvedNetwork::of(&config.network, &nothing, &nothing);
    if known.is_complete() {
        return Ok(known);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shell = runtime.block_on(login_shell::environment(places, assemble::runner())).unwrap_or_default();
    Ok(ResolvedNetwork::of(&config.network, &nothing, &shell))
}

/// Returns those of the variables that configure a daemon started by hand.
fn variables_of_serve(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with("ACPD__") || network::is_network_variable(name)).collect();
    names.sort();
    names
}

/// Formats one line per key. A value that differs from the default is shown with its source.
fn render(overview: &[ShownSetting], places: &Paths, colors: Colors) -> String {
    let mut text = String::new();
    for ShownSetting { key, value, source } in overview {
        let line = visible_text(&format!("{key} = {value}"));
        if source == "default" {
            text.push_str(&format!("{line}\n"));
        } else {
            let source = source.replace(&places.home.display().to_string(), "~");
            text.push_str(&format!("{line}  {}\n", colors.apply(Style::Cyan, &format!("# {}", visible_text(&source)))));
        }
    }
    text
}

fn check(places: &Paths, file: Option<&Path>) -> anyhow::Result<()> {
    let said = match file {
        Some(file) if !file.exists() => anyhow::bail!("there is no file {}", file.display()),
        Some(file) if is_a_projects(file) => {
            project::check(file)?;
            format!("{} is valid as a project's configuration", file.display())
        }
        Some(file) => {
            assemble::check(places, &config::load(file, [], &[])?)?;
            format!("{} is valid", file.display())
        }
        None => {
            assemble::check(places, &config::load(&places.config, launch::environment(), &[])?)?;
            let state = if places.config.exists() { "is valid" } else { "does not exist, so the defaults apply" };
            format!("{} {state}", places.config.display())
        }
    };
    println!("{said}");
    Ok(())
}

fn is_a_projects(file: &Path) -> bool {
    std::path::absolute(file).is_ok_and(|file| file.parent().is_some_and(|folder| folder.ends_with(".acpd")))
}
