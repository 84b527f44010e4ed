//! `acpd login`, `acpd acp --login` and `acpd logout`, at a terminal and from a pipe, with a server
//! that checks the key.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::json;
use testkit::provider::{Reply, Server};

use crate::harness::{Home, Terminal, finish};

const KEY: &str = "sk-login-0123456789";

/// A server that lists its models only for requests with the key.
fn server() -> Server {
    Server::with(|seen, _| match seen.header("authorization").strip_prefix("Bearer ") {
        Some(KEY) => Reply::json(200, &json!({ "data": [{ "id": "one" }, { "id": "two" }] })),
        Some(_) | None => Reply::json(401, &json!({ "error": { "message": "no such key" } })),
    })
}

/// A home with two providers at this server, one of which has no key settings.
fn home(server: &Server) -> Home {
    let home = Home::new();
    let providers = ["keyed", "bare"].map(|name| {
        let key = if name == "keyed" { "key = { env = \"KEYED_KEY\" }\n" } else { "" };
        format!("[models.providers.{name}]\nkind = \"openai\"\nbase_url = \"{}/v1\"\n{key}", server.address)
    });
    home.configure(&format!("[models.local]\nprobe = false\n{}", providers.concat()));
    home
}

fn stored(home: &Home, provider: &str) -> PathBuf {
    home.state().join(format!("keys/{provider}.key"))
}

/// Runs the command with this text as its standard input.
fn piped(home: &Home, args: &[&str], input: &str) -> Output {
    let file = home.path().join("input");
    fs::write(&file, input).unwrap();
    let mut command = home.acpd(args);
    command.stdin(Stdio::from(fs::File::open(file).unwrap()));
    finish(command)
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8(both).unwrap()
}

#[test]
fn a_key_from_a_pipe_is_checked_and_stored_privately() {
    let server = server();
    let home = home(&server);
    for provider in ["keyed", "bare"] {
        let output = piped(&home, &["login", provider], &format!("{KEY}\n"));
        assert!(output.status.success(), "{output:?}");
        let path = stored(&home, provider);
        let said = format!("{provider} accepts the key and offers 2 models\nstored in {}\n", path.display());
        assert_eq!(text(&output), said);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{KEY}\n"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert_eq!(home.stdout(&["logout", "keyed"]), "keyed: forgotten\n");
    let again = home.run(&["logout", "keyed"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again).contains("no key is stored for `keyed`; there are keys for bare"), "{again:?}");
    // Leaving out the name must not remove all keys.
    let unnamed = home.run(&["logout"]);
    assert_eq!(unnamed.status.code(), Some(1));
    assert!(text(&unnamed).contains("name a provider (bare), or remove all keys with --all"), "{unnamed:?}");
    let mut terminal = Terminal::start(&home.acpd(&["logout"]));
    terminal.until_seen("Remove the stored keys of bare? [y/N] ");
    terminal.type_in("\n");
    assert_eq!(terminal.wait().code(), Some(130));
    assert!(stored(&home, "bare").exists());
    assert_eq!(home.stdout(&["logout", "--all"]), "bare: forgotten\n");
    assert_eq!(home.stdout(&["logout", "--all"]), "no key is stored\n");
    assert!(!stored(&home, "keyed").exists() && !stored(&home, "bare").exists());
}

#[test]
fn a_wrong_key_or_provider_stores_nothing_and_says_why() {
    let server = server();
    let home = home(&server);
    let wrong = piped(&home, &["login", "keyed"], "sk-wrong-key\n");
    assert!(!wrong.status.success());
    let said = text(&wrong);
    assert!(said.contains("keyed: the key was refused (401)") && said.contains("--unchecked"), "{said}");
    assert!(!said.contains("sk-wrong-key"), "{said}");
    let nobody = text(&piped(&home, &["login", "nobody"], &format!("{KEY}\n")));
    assert!(
        nobody.contains("there is no provider `nobody`; the providers are bare, keyed, anthropic, openai"),
        "{nobody}"
    );
    assert!(text(&piped(&home, &["login", "keyed"], "")).contains("nothing was typed"));
    assert!(!stored(&home, "keyed").exists());
    let unchecked = piped(&home, &["login", "keyed", "--unchecked"], "sk-wrong-key\n");
    assert!(unchecked.status.success() && stored(&home, "keyed").exists(), "{unchecked:?}");
}

/// The login that an editor runs in its terminal.
fn login_of_the_editor(home: &Home) -> Command {
    home.acpd(&["acp", "--login"])
}

#[test]
fn at_a_terminal_the_key_is_asked_for_and_never_shown() {
    let server = server();
    let home = home(&server);
    let mut terminal = Terminal::start(&login_of_the_editor(&home));
    terminal.until_seen("Provider (bare, keyed, anthropic, openai");
    assert!(terminal.echoes());
    terminal.type_in("keyed\n");
    terminal.until_seen("Key for keyed: ");
    assert!(!terminal.echoes());
    terminal.type_in(&format!("{KEY}\n"));
    assert!(terminal.wait().success(), "{}", terminal.seen());
    terminal.until_seen("keyed accepts the key and offers 2 models");
    assert!(terminal.echoes() && !terminal.seen().contains(KEY), "{}", terminal.seen());
    assert_eq!(fs::read_to_string(stored(&home, "keyed")).unwrap(), format!("{KEY}\n"));
}

#[test]
fn ctrl_c_at_the_key_prompt_restores_the_terminals_echo() {
    let server = server();
    let home = home(&server);
    let mut terminal = Terminal::start(&home.acpd(&["login", "keyed"]));
    terminal.until_seen("Key for keyed: ");
    assert!(!terminal.echoes());
    terminal.type_in("sk-half\u{3}");
    assert!(!terminal.wait().success());
    assert!(terminal.echoes());
    assert!(!terminal.seen().contains("sk-half") && !stored(&home, "keyed").exists(), "{}", terminal.seen());
    assert!(server.requests().is_empty());
}
