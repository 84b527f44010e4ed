//! Chooses the daemon: the user's own daemon on its socket, started if needed, or any daemon over
//! HTTP.

use std::fs;

use anyhow::Context;

use crate::cli::AskArgs;
use crate::environment;
use crate::paths::Paths;

pub(super) struct Endpoint<'a> {
    pub(super) places: &'a Paths,
    /// The HTTP address, if the daemon is not reached over the socket.
    pub(super) http: Option<Http<'a>>,
}

pub(super) struct Http<'a> {
    pub(super) address: &'a str,
    pub(super) token: String,
}

impl<'a> Endpoint<'a> {
    pub(super) fn wanted(places: &'a Paths, args: &'a AskArgs) -> anyhow::Result<Self> {
        let http = args.url.as_deref().map(|address| anyhow::Ok(Http { address, token: token(places, args)? }));
        Ok(Self { places, http: http.transpose()? })
    }
}

/// Reads the token from the named file, from the environment, or from the file of the user's own
/// daemon.
fn token(places: &Paths, args: &AskArgs) -> anyhow::Result<String> {
    let given = environment::variable("ACPD_TOKEN")
        .and_then(|token| token.into_string().ok())
        .filter(|token| args.token_file.is_none() && !token.is_empty());
    let file = args.token_file.clone().unwrap_or_else(|| places.http_token());
    let token = given.map_or_else(|| fs::read_to_string(&file), Ok);
    let token = token
        .with_context(|| format!("cannot read the token {}; use --token-file to name another file", file.display()))?;
    Ok(token.trim().to_owned())
}
