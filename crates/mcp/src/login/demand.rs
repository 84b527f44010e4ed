//! The login that a server demands when it refuses a request, and the command that provides it.
//! Pure.

use reqwest::Url;
use rmcp::transport::auth::WWWAuthenticateParams;

/// The most scopes of a demand, and the most bytes of all of them. A demand beyond these limits
/// counts as one that names no scopes.
const MAX_SCOPES: usize = 20;
const MAX_SCOPES_BYTES: usize = 600;

/// The longest challenge that is read, in bytes.
const MAX_CHALLENGE_BYTES: usize = 8 << 10;

/// A login that a server demands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Whether there is a login already, which has too few rights.
    pub(crate) has_login: bool,
    /// The scopes that the server names for the request.
    pub(crate) scopes: Vec<String>,
}

impl Demand {
    /// Reads the challenge of an answer with status 401.
    pub(crate) fn login(challenge: &str) -> Self {
        Self { has_login: false, scopes: scopes(&params(challenge)) }
    }

    /// Reads the challenge of an answer with status 403. None if it is not about scopes.
    pub(crate) fn more_rights(challenge: &str) -> Option<Self> {
        let params = params(challenge);
        params.is_insufficient_scope().then(|| Self { has_login: true, scopes: scopes(&params) })
    }

    /// Adds the scopes to the command of the user that logs in.
    pub(crate) fn command(&self, command: &str) -> String {
        match self.scopes.as_slice() {
            [] => command.to_owned(),
            [scope] if is_word(scope) => format!("{command} --scope {scope}"),
            // Nothing has a meaning between these quotes, and no scope contains one.
            scopes => format!("{command} --scope '{}'", scopes.join(" ")),
        }
    }
}

fn params(challenge: &str) -> WWWAuthenticateParams {
    let base = Url::parse("https://invalid/").expect("a constant address is valid");
    match challenge.len() {
        ..=MAX_CHALLENGE_BYTES => WWWAuthenticateParams::parse(challenge, &base),
        _ => WWWAuthenticateParams::default(),
    }
}

/// Returns the scopes of a challenge. None of them can end the quotes of a shell command or of a
/// message.
fn scopes(params: &WWWAuthenticateParams) -> Vec<String> {
    let text = params.scope.as_deref().unwrap_or_default();
    let scopes: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    let is_safe = |scope: &String| scope.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\'`".contains(&byte));
    let fits = scopes.len() <= MAX_SCOPES && text.len() <= MAX_SCOPES_BYTES;
    if fits && scopes.iter().all(is_safe) { scopes } else { Vec::new() }
}

/// Returns whether every shell takes the text as one word, and not as an option.
fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@+,-".contains(&byte);
    text.bytes().all(is_plain) && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: &str = "acpd login --mcp tickets";

    #[test]
    fn the_scopes_of_a_challenge_become_part_of_the_command() {
        let command = |challenge: &str| Demand::login(challenge).command(COMMAND);
        assert_eq!(command(""), COMMAND);
        assert_eq!(command("Bearer realm=\"x\""), COMMAND);
        assert_eq!(command("Bearer scope=\"tickets.write\""), format!("{COMMAND} --scope tickets.write"));
        assert_eq!(command("Bearer scope=\"a  b\", error=\"x\""), format!("{COMMAND} --scope 'a b'"));
        assert_eq!(command("Bearer scope=\"$(id)\""), format!("{COMMAND} --scope '$(id)'"));
        assert_eq!(command("Bearer scope=--no-browser"), format!("{COMMAND} --scope '--no-browser'"));
    }

    #[test]
    fn a_scope_cannot_leave_its_quotes_and_too_many_are_ignored() {
        let many = "x ".repeat(MAX_SCOPES + 1);
        let long = "x".repeat(MAX_SCOPES_BYTES + 1);
        let endless = format!("a{}", " ".repeat(MAX_CHALLENGE_BYTES));
        for scope in ["a';id;'", "`id`", "é", "a\u{1b}[2J", "\\\"", &many, &long, &endless] {
            let demand = Demand::login(&format!("Bearer scope=\"{scope}\""));
            assert_eq!(demand.command(COMMAND), COMMAND, "{scope}");
        }
    }

    #[test]
    fn only_a_challenge_about_scopes_demands_more_rights() {
        let demand = Demand::more_rights("Bearer error=\"insufficient_scope\", scope=\"tickets.write\"");
        assert_eq!(demand, Some(Demand { has_login: true, scopes: vec!["tickets.write".to_owned()] }));
        let demand = Demand::more_rights("Bearer error=insufficient_scope");
        assert_eq!(demand, Some(Demand { has_login: true, scopes: Vec::new() }));
        assert_eq!(Demand::more_rights("Bearer error=\"invalid_token\", scope=\"x\""), None);
        assert_eq!(Demand::more_rights(""), None);
    }
}
