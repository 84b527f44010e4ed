//! `acpd agents check` and `acpd login --agent`: start an agent, show its capabilities, and log in
//! to it.

#![allow(clippy::print_stdout, reason = "the answer is printed")]

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use agents::{AgentHostSettings, AgentSettings, NATIVE, Probe};
use anyhow::{Context, bail, ensure};
use domain::Environment;
use domain::hosted::{AgentFailure, Offer};
use serde_json::{Value, json};
use terminal::style::visible_text;
use wire::RpcError;
use wire::child::{AuthMethod, ChildCapabilities, LoginBy, read_auth_methods};

use crate::commands::Ending;
use crate::commands::json_output::print_indented;
use crate::paths::Paths;
use crate::{assemble, launch};

/// How long a login may take in which the agent guides the user.
const LOGIN: Duration = Duration::from_secs(900);

/// The result of opening a session, which shows whether a login is needed.
type Opened = Result<Offer, RpcError>;

pub(super) fn run(places: &Paths, name: &str, json: bool) -> anyhow::Result<Ending> {
    let hosts = hosts(places, name)?;
    let entry = entry(&hosts, name)?;
    eprintln!("{}", visible_text(&format!("starting `{}`", shell_line(&entry.command, &entry.args))));
    let (capabilities, opened) = block_on(async {
        let mut probe = start(&hosts, name, |_| {}).await?;
        let opened = probe.open_session().await;
        let capabilities = probe.capabilities().clone();
        probe.end().await;
        Ok((capabilities, opened.map_err(failed)?))
    })?;
    let methods = read_auth_methods(&capabilities.auth_methods);
    if json {
        print_indented(&as_json(name, &capabilities, &methods, &opened));
    } else {
        print!("{}", visible_text(&report(name, &capabilities, &methods, &opened)));
    }
    match opened {
        Ok(_) => Ok(Ending::Done),
        Err(error) if error.code == RpcError::AUTHENTICATION_REQUIRED => {
            bail!("the agent `{name}` requires a login; run `acpd login --agent {name}`")
        }
        Err(error) => bail!("the agent `{name}` could not open a session: {}", error.message),
    }
}

/// Logs in to an agent by one of its methods, and checks that it worked.
pub fn log_in(places: &Paths, name: &str, method: Option<&str>) -> anyhow::Result<Ending> {
    let hosts = hosts(places, name)?;
    block_on(async {
        let mut probe = start(&hosts, name, |line| eprintln!("{}", visible_text(line))).await?;
        let methods = read_auth_methods(&probe.capabilities().auth_methods);
        let chosen = match choose(name, &methods, method) {
            Ok(chosen) => chosen,
            Err(error) => {
                probe.end().await;
                return Err(error);
            }
        };
        match &chosen.by {
            LoginBy::Agent => {
                eprintln!("{}", visible_text(&format!("{name}: {}", chosen.name)));
                let done = probe.log_in(&chosen.id, LOGIN).await;
                probe.end().await;
                done.map_err(failed)?.map_err(|error| anyhow::anyhow!("the login failed: {}", error.message))?;
            }
            LoginBy::Terminal { command, args, env } => {
                probe.end().await;
                run_in_terminal(entry(&hosts, name)?, command.as_deref(), args, env)?;
            }
            LoginBy::Other(kind) => {
                probe.end().await;
                let about = chosen.description.as_deref().unwrap_or(&chosen.name);
                bail!("the method `{}` is of the kind `{kind}`, which acpd cannot carry out: {about}", chosen.id);
            }
        }
        let mut probe = start(&hosts, name, |_| {}).await?;
        let opened = probe.open_session().await;
        probe.end().await;
        match opened.map_err(failed)? {
            Ok(_) => println!("{name}: logged in"),
            Err(error) => bail!("the agent `{name}` still cannot open a session: {}", error.message),
        }
        Ok(Ending::Done)
    })
}

/// Runs the agent's own login in this terminal.
fn run_in_terminal(
    entry: &AgentSettings,
    command: Option<&str>,
    args: &[String],
    env: &[(String, String)],
) -> anyhow::Result<()> {
    // A method without a command runs the configured command with additional arguments.
    let before: &[String] = if command.is_some() { &[] } else { &entry.args };
    let program = command.unwrap_or(&entry.command);
    let all: Vec<String> = before.iter().chain(args).cloned().collect();
    eprintln!("{}", visible_text(&format!("running `{}`", shell_line(program, &all))));
    let mut login = std::process::Command::new(program);
    let env = entry.env.iter().map(|(name, value)| (name.clone(), value.clone())).chain(env.iter().cloned());
    let status = login.args(&all).envs(env).status().with_context(|| format!("cannot start `{program}`"))?;
    ensure!(status.success(), "the login failed: `{program}` ended with {status}");
    Ok(())
}

fn choose(name: &str, methods: &[AuthMethod], wanted: Option<&str>) -> anyhow::Result<AuthMethod> {
    let list = || methods.iter().map(|method| method.id.as_str()).collect::<Vec<_>>().join(", ");
    match (wanted, methods) {
        (_, []) => bail!("the agent `{name}` offers no way to log in here; see its own documentation"),
        (Some(wanted), _) => {
            let found = methods.iter().find(|method| method.id == wanted);
            found.cloned().with_context(|| format!("the agent `{name}` has no method `{wanted}`; it has {}", list()))
        }
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            ensure!(io::stdin().is_terminal(), "choose a login method with --method: {}", list());
            for (number, method) in (1..).zip(methods) {
                let about = method.description.as_ref().map(|about| format!(": {about}")).unwrap_or_default();
                eprintln!("{}", visible_text(&format!("{number}  {}{about}", method.name)));
            }
            eprint!("Which one? ");
            io::stderr().flush()?;
            let mut answer = String::new();
            io::stdin().lock().read_line(&mut answer).context("cannot read from stdin")?;
            let number: usize = answer.trim().parse().unwrap_or(0);
            methods.get(number.wrapping_sub(1)).cloned().context("there is no such method; nothing was done")
        }
    }
}

fn hosts(places: &Paths, name: &str) -> anyhow::Result<AgentHostSettings> {
    ensure!(name != NATIVE, "`{NATIVE}` is acpd's own engine; see `acpd doctor` and `acpd login`");
    super::find(places, name)?;
    assemble::hosts(places, &super::load(places)?)
}

fn entry<'a>(hosts: &'a AgentHostSettings, name: &str) -> anyhow::Result<&'a AgentSettings> {
    hosts.agents.entries.get(name).with_context(|| format!("there is no agent `{name}` in the configuration"))
}

async fn start(
    hosts: &AgentHostSettings,
    name: &str,
    on_line: impl Fn(&str) + Send + 'static,
) -> anyhow::Result<Probe> {
    let cwd: PathBuf = std::env::current_dir().context("cannot find the current folder")?;
    let environment: Environment = launch::environment().collect();
    Probe::start(name, hosts, cwd, environment, on_line).await.map_err(failed)
}

fn failed(failure: AgentFailure) -> anyhow::Error {
    match failure.data["stderr"].as_str() {
        Some(line) => anyhow::anyhow!("{failure}; it wrote: {line}"),
        None => anyhow::anyhow!("{failure}"),
    }
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Lists what an agent can do, by the names of its capabilities.
fn abilities(capabilities: &ChildCapabilities) -> Vec<&'static str> {
    let all = [
        (capabilities.load, "load"),
        (capabilities.resume, "resume"),
        (capabilities.mcp_http, "mcp-http"),
        (capabilities.mcp_sse, "mcp-sse"),
        (capabilities.images, "images"),
        (capabilities.audio, "audio"),
        (capabilities.embedded, "embedded-context"),
    ];
    all.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}

fn login(opened: &Opened) -> &'static str {
    match opened {
        Ok(_) => "ready",
        Err(error) if error.code == RpcError::AUTHENTICATION_REQUIRED => "login needed",
        Err(_) => "failed",
    }
}

fn report(name: &str, capabilities: &ChildCapabilities, methods: &[AuthMethod], opened: &Opened) -> String {
    let mut text = format!("{name}: {}\n", capabilities.name.as_deref().unwrap_or("gives no name"));
    let mut line = |what: &str, value: String| text.push_str(&format!("  {what:<10} {value}\n"));
    line("protocol", format!("version {}", capabilities.version));
    line("can", abilities(capabilities).join(", "));
    for method in methods {
        line("login by", format!("{} ({})", method.id, method.name));
    }
    line("state", login(opened).to_owned());
    if let Ok(offer) = opened {
        for (what, ids) in [
            ("modes", ids(&offer.modes, "availableModes", "id")),
            ("models", ids(&offer.models, "availableModels", "modelId")),
        ] {
            if !ids.is_empty() {
                line(what, ids.join(", "));
            }
        }
    }
    text
}

fn ids(choices: &Option<Value>, list: &str, id: &str) -> Vec<String> {
    let entries = choices.as_ref().and_then(|choices| choices.get(list)?.as_array()).into_iter().flatten();
    entries.filter_map(|entry| entry.get(id)?.as_str()).map(str::to_owned).collect()
}

fn as_json(name: &str, capabilities: &ChildCapabilities, methods: &[AuthMethod], opened: &Opened) -> Value {
    let offer = opened.as_ref().ok();
    let error = opened.as_ref().err().map(|error| json!({ "code": error.code, "message": error.message }));
    json!({
        "name": name,
        "agent": capabilities.name,
        "protocolVersion": capabilities.version,
        "capabilities": abilities(capabilities),
        "authMethods": methods.iter().map(|method| json!({ "id": method.id, "name": method.name })).collect::<Vec<_>>(),
        "state": login(opened),
        "error": error,
        "modes": offer.map(|offer| ids(&offer.modes, "availableModes", "id")),
        "models": offer.map(|offer| ids(&offer.models, "availableModels", "modelId")),
    })
}

/// Formats a command as a user could type it, with quotes where a shell needs them.
pub(super) fn shell_line(command: &str, args: &[String]) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=@:+,".contains(letter);
    let quoted = |word: &str| match word {
        "" => "''".to_owned(),
        word if word.chars().all(is_plain) => word.to_owned(),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    };
    std::iter::once(command).chain(args.iter().map(String::as_str)).map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_with_the_quotes_that_it_needs() {
        let args = ["--acp", "two words", "it's", ""].map(str::to_owned);
        assert_eq!(shell_line("/opt/agent", &args), r"/opt/agent --acp 'two words' 'it'\''s' ''");
    }

    #[test]
    fn a_method_is_chosen_by_its_id_or_because_it_is_the_only_one() {
        let methods = read_auth_methods(&json!([{ "id": "a", "name": "A" }, { "id": "b", "name": "B" }]));
        assert_eq!(choose("x", &methods, Some("b")).unwrap().name, "B");
        assert_eq!(choose("x", &methods[..1], None).unwrap().name, "A");
        assert!(choose("x", &methods, Some("c")).unwrap_err().to_string().contains("a, b"));
        assert!(choose("x", &[], None).is_err());
    }
}
