//! `acpd login --mcp` and `acpd logout --mcp`: log in to an MCP server with a browser. The daemon
//! notices the stored login by itself.
//!
//! The browser comes back to an address of this machine. If it runs on another machine, the user
//! pastes the address that it could not load.

use std::io::{self, BufRead, IsTerminal};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ::mcp::{
    LoginTarget, OauthSettings, PendingLogin, RedirectListener, Redirected, ServerSettings, SplitLogin, StoredLogins,
};
use anyhow::{Context, anyhow, bail};
use domain::{Environment, escape, similar_names};
use tokio::sync::oneshot;

use crate::commands::Ending;
use crate::config::{self, Config, ResolvedNetwork};
use crate::launch;
use crate::paths::{Paths, private_folder};

/// How long the user has to log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(600);

pub(super) fn log_in(places: &Paths, server: &str, scopes: &[String], open_browser: bool) -> anyhow::Result<Ending> {
    let config = config::load(&places.config, launch::environment(), &[])?;
    let mut target = target(&config, server)?;
    if !scopes.is_empty() {
        // More rights must not cost those of the present login.
        target.scopes = logins(places).scopes(&target.url);
        target.scopes.extend(scopes.iter().flat_map(|scopes| scopes.split_whitespace()).map(str::to_owned));
    }
    ResolvedNetwork::of(&config.network, &launch::environment().collect(), &Environment::default()).install();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let login = runtime.block_on(approve(&target, open_browser)).with_context(|| format!("logging in to {server}"))?;
    // Everything of acpd's is below this folder, which must be private, too.
    private_folder(&places.state)?;
    let stored = logins(places).store(&login).context("the login was not stored")?;
    if let Some(moved) = stored.moved {
        println!("the file of the earlier login could not be read; it is now {}", moved.display());
    }
    println!("logged in to {server}; the login is in {}", stored.path.display());
    Ok(Ending::Done)
}

pub(super) fn log_out(places: &Paths, server: &str) -> anyhow::Result<Ending> {
    let config = config::load(&places.config, launch::environment(), &[])?;
    let address = match server.contains("://") {
        true => server.to_owned(),
        // The client's secret is not needed, and its variable may not be set any more.
        false => configured(&config, server)?
            .login_url(&launch::environment().collect())
            .map_err(|why| unusable(server, &why))?,
    };
    if !logins(places).forget(&address).context("removing the login")? {
        bail!("there is no login to `{server}`");
    }
    println!("{server}: forgotten");
    Ok(Ending::Done)
}

fn logins(places: &Paths) -> StoredLogins {
    StoredLogins::new(places.mcp_logins())
}

/// Returns the server with this name, or at this address. A server of a project has to be given by
/// its address, so the user sees where the login goes.
fn target(config: &Config, server: &str) -> anyhow::Result<LoginTarget> {
    let environment: Environment = launch::environment().collect();
    if server.contains("://") {
        // The settings of a configured server apply to its address, too.
        let mut known = config.mcp.servers.values().filter_map(|known| known.login(&environment).ok());
        let found = known.find(|known| known.url == server);
        let named = || LoginTarget { url: server.to_owned(), oauth: OauthSettings::default(), scopes: Vec::new() };
        return Ok(found.unwrap_or_else(named));
    }
    configured(config, server)?.login(&environment).map_err(|why| unusable(server, &why))
}

/// Returns the server with this name in the configuration.
fn configured<'a>(config: &'a Config, server: &str) -> anyhow::Result<&'a ServerSettings> {
    if let Some(settings) = config.mcp.servers.get(server) {
        return Ok(settings);
    }
    let names = config.mcp.servers.iter().filter(|(_, server)| server.is_remote()).map(|(name, _)| name.as_str());
    let near = similar_names::did_you_mean(server, names);
    let hint = near.unwrap_or_else(|| "name a configured server, or give a URL".to_owned());
    bail!("there is no MCP server `{server}`; {hint}");
}

fn unusable(server: &str, why: &str) -> anyhow::Error {
    anyhow!("the MCP server `{server}` cannot be used: {why}")
}

/// Shows the page to the user, and waits for the answer from the browser or for a pasted address.
async fn approve(target: &LoginTarget, open_browser: bool) -> anyhow::Result<::mcp::Login> {
    let listener = RedirectListener::bind(target.oauth.redirect_port).await?;
    let pending = PendingLogin::begin(target, listener.uri()).await?;
    let split = pending.split();
    if let Some(SplitLogin { page, token_endpoint }) = split {
        let [page, token_endpoint] = [page, token_endpoint].map(|origin| escape::line(origin));
        eprintln!("Warning: you approve this login at {page}, but acpd would then fetch");
        eprintln!("the tokens from {token_endpoint}. A hostile MCP server can name");
        eprintln!("somebody else's page in this way. Continue only if you know that both belong together.");
        eprintln!("acpd does not open the page by itself.\n");
    }
    // The address comes from the server, and must not change what the terminal shows.
    eprintln!("Open this page in a browser:\n\n{}\n", escape::line(pending.page()));
    eprintln!("If the browser runs on another machine, its last page cannot be loaded there. Then paste the");
    eprintln!("address of that page here, and press Enter.");
    if open_browser && split.is_none() {
        open(pending.page());
    }
    let redirected = tokio::select! {
        redirected = listener.wait(pending.state()) => redirected?,
        pasted = pasted() => Redirected::pasted(&pasted?, listener.uri())?,
        () = tokio::time::sleep(LOGIN_TIMEOUT) => bail!("no login was completed within {} minutes; try again", LOGIN_TIMEOUT.as_secs() / 60),
    };
    Ok(pending.finish(redirected).await?)
}

/// Returns the first line that is typed or piped in. Never resolves without one.
async fn pasted() -> anyhow::Result<String> {
    let (send, typed) = oneshot::channel();
    // A thread, because reading cannot be cancelled. It ends with the program.
    thread::spawn(move || {
        let read = io::stdin().lock().lines().find(|line| line.as_ref().is_ok_and(|line| !line.trim().is_empty()));
        if let Some(Ok(line)) = read {
            let _ = send.send(line);
        }
    });
    match typed.await {
        Ok(line) => Ok(line),
        Err(_) => std::future::pending().await,
    }
}

/// Starts the desktop's browser, if there is a desktop. The page is printed in any case, so nothing
/// depends on this.
fn open(page: &str) {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !has_desktop || !io::stderr().is_terminal() {
        return;
    }
    let mut command = Command::new("xdg-open");
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        // Waiting for it leaves no zombie behind. It may live as long as the browser.
        thread::spawn(move || child.wait());
    }
}
