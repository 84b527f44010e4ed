//! Logins to MCP servers: the real program, a strict authorization server, and a test that plays
//! the browser.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use testkit::answers::{AnswerPart, Dialect, ModelAnswer};
use testkit::oauth::{INSTRUCTIONS, OauthRules, OauthServer, approve, assert_hidden, get};
use testkit::provider::{Action, Reply, Server};

use crate::harness::{Daemon, Home, Lines, Terminal, finish, until};

/// A model that uses the server's tool once in every turn, and a home with that model and the
/// server.
fn home(oauth: &OauthServer, settings: &str) -> (Server, Home) {
    let model = Server::with(|request, _| {
        let body = request.json();
        let last = body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
        let answer = match last["role"].as_str() {
            Some("tool") => ModelAnswer::text(format!("The tool says: {}", last["content"])),
            _ => ModelAnswer::new(vec![AnswerPart::Call("mcp__tickets__list", json!({}))]),
        };
        Reply::stream(&[&answer.sse(Dialect::Chat)])
    });
    let home = Home::new();
    home.configure(&format!(
        "[models]\ndefault = \"fake/fake\"\n[models.local]\nprobe = false\n[models.retry]\nfirst_ms = 2\n\
         [models.providers.fake]\nkind = \"openai\"\nbase_url = \"{}\"\n\
         [[models.providers.fake.models]]\nid = \"fake\"\nwindow = 100000\n\
         [mcp]\nwait_seconds = 60\n[mcp.servers.tickets]\nurl = \"{}\"\n{settings}",
        model.address,
        oauth.mcp()
    ));
    (model, home)
}

/// A daemon that logs everything.
fn serve(home: &Home) -> Daemon {
    home.start(home.acpd(&["serve", "--set", "log.filter=trace"]))
}

/// `acpd login --mcp` without a terminal, while it waits for the browser.
struct LoginCommand {
    child: Child,
    /// Kept so that the command can write.
    _stderr: Lines,
    page: String,
}

impl LoginCommand {
    #[track_caller]
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stderr = Lines::of(child.stderr.take().unwrap());
        let page = stderr.find(|line| line.starts_with("http://"));
        Self { child, _stderr: stderr, page }
    }

    /// Waits for its end and returns its output.
    #[track_caller]
    fn finish(self) -> String {
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Logs in with a browser on this machine.
    #[track_caller]
    fn approve(self) -> String {
        assert_eq!(get(&approve(&self.page)).0, 200);
        self.finish()
    }
}

#[track_caller]
fn log_in(home: &Home) {
    LoginCommand::start(home.acpd(&["login", "--mcp", "tickets"])).approve();
}

fn stored(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.state().join("keys/mcp-logins")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
}

#[track_caller]
fn until_shown(home: &Home, state: &str) -> String {
    until(state, || Some(home.stdout(&["ctl", "mcp"])).filter(|shown| shown.contains(state)))
}

#[track_caller]
fn ask(home: &Home) -> String {
    home.stdout(&["ask", "--allow", "what is new?"])
}

#[test]
fn a_login_with_the_browser_lets_ask_use_a_protected_server() {
    let oauth = OauthServer::start(OauthRules::default());
    let (model, home) = home(&oauth, "");
    let _daemon = serve(&home);
    let mut editor = home.bridge();
    editor.open(&home.work());
    until_shown(&home, "needs a login: run `acpd login --mcp tickets`\n");
    let shown = home.json(&["ctl", "mcp", "--json"]);
    let state = json!({ "is": "needs_login", "command": "acpd login --mcp tickets" });
    assert_eq!(shown["sessions"][0]["servers"][0]["state"], state);

    let login = LoginCommand::start(home.acpd(&["login", "--mcp", "tickets"]));
    let answer = approve(&login.page);
    let state = login.page.split("state=").nth(1).unwrap().split('&').next().unwrap();
    // Another page knows the port, but not the state.
    let (status, said) = get(&answer.replace(state, "AAAAAAAAAAAAAAAAAAAAAA"));
    assert!(status == 400 && said.contains("does not belong to the login"), "{said}");
    assert!(stored(&home).is_empty());
    assert_eq!(get(&answer).0, 200);
    let said = login.finish();
    let [path] = &stored(&home)[..] else { panic!("one login is stored") };
    assert_eq!(said, format!("logged in to tickets; the login is in {}\n", path.display()));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(path), mode(path.parent().unwrap())), (0o600, 0o700));

    // The running daemon notices it, and so does the next one.
    until_shown(&home, "tickets (tickets 1)  http, from the configuration\n    ready\n");
    let said = ask(&home);
    assert!(said.contains("the coffee is cold"), "{said}");
    let request = model.requests()[0].body.clone();
    assert!(request.contains(INSTRUCTIONS) && request.contains("It is not from the user."), "{request}");
    let secrets = oauth.secrets();
    assert!(secrets.len() >= 3, "{secrets:?}");
    assert_hidden(&secrets, "the log", &home.log());
    assert_hidden(&secrets, "ctl", &home.stdout(&["ctl", "mcp", "--json"]));
    assert_hidden(&secrets, "the output of the login", &said);
    for request in model.requests() {
        assert_hidden(&secrets, "a request to the model", &request.body);
    }
    for process in home.processes() {
        for file in ["cmdline", "environ"] {
            let text = fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
            assert_hidden(&secrets, file, &String::from_utf8_lossy(&text));
        }
    }
    let session = shown["sessions"][0]["session"].as_str().unwrap();
    assert_hidden(&secrets, "an export", &home.stdout(&["ctl", "export", session]));
    assert_eq!(oauth.complaints(), [""; 0]);
}

#[test]
fn a_pasted_address_ends_a_login_and_a_wrong_one_is_refused() {
    let oauth = OauthServer::start(OauthRules { openid: true, ..OauthRules::default() });
    let (_model, home) = home(&oauth, "");
    let log_in = |change: fn(String) -> String| {
        let mut terminal = Terminal::start(&home.acpd(&["login", "--mcp", "tickets", "--no-browser"]));
        terminal.until_seen("press Enter.");
        let seen = terminal.seen();
        let page = seen.lines().map(str::trim).find(|line| line.starts_with("http://")).unwrap();
        terminal.type_in(&format!("{}\n", change(approve(page))));
        let status = terminal.wait();
        (status.success(), terminal.seen())
    };
    let (is_done, said) = log_in(|address| address.replace("state=", "state=x"));
    assert!(!is_done && said.contains("its `state` is that of another login"), "{said}");
    let (is_done, said) = log_in(|address| address.replace("/callback", "/other"));
    assert!(!is_done && said.contains("it should begin like the page that the browser could not load"), "{said}");
    let (is_done, said) = log_in(|address| address.replace("iss=", "iss=https%3A%2F%2Fevil.example%2F"));
    assert!(!is_done && said.contains("issuer mismatch"), "{said}");
    assert!(stored(&home).is_empty());
    let (is_done, said) = log_in(|address| address);
    assert!(is_done && said.contains("logged in to tickets"), "{said}");
    assert_eq!(oauth.complaints(), [""; 0]);
    let said = ask(&home);
    assert!(said.contains("the coffee is cold"), "{said}");
}

#[test]
fn a_token_is_renewed_in_mid_session_and_a_revoked_login_is_asked_for_again() {
    let oauth = OauthServer::start(OauthRules::default());
    let (_model, home) = home(&oauth, "");
    let _daemon = serve(&home);
    log_in(&home);
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    until_shown(&home, "    ready\n");
    assert_eq!(oauth.renewals(), 0);
    oauth.expire();
    let said = home.stdout(&["ask", "--allow", "--session", &session, "what is new?"]);
    assert!(said.contains("the coffee is cold"), "{said}");
    assert_eq!(oauth.renewals(), 1);
    // Two sessions in different folders have separate connections and one refresh token.
    let other = home.path().join("other");
    fs::create_dir(&other).unwrap();
    editor.ask("session/new", json!({ "cwd": other, "mcpServers": [] }));
    until("both servers to be ready", || {
        (home.stdout(&["ctl", "mcp"]).matches("    ready\n").count() == 2).then_some(())
    });
    oauth.expire();
    for folder in [home.work(), other] {
        let mut command = home.acpd(&["ask", "--allow", "what is new?"]);
        command.current_dir(folder);
        let output = finish(command);
        assert!(String::from_utf8_lossy(&output.stdout).contains("the coffee is cold"), "{output:?}");
    }
    assert_eq!(oauth.renewals(), 2);
    assert_eq!(oauth.complaints(), [""; 0]);

    oauth.revoke();
    home.run(&["ask", "--allow", "--session", &session, "what is new?"]);
    until_shown(&home, "needs a login: run `acpd login --mcp tickets`");
    assert!(stored(&home).is_empty(), "what the server has rejected is of no use");
    log_in(&home);
    until_shown(&home, "    ready\n");
    assert_hidden(&oauth.secrets(), "the log", &home.log());

    assert_eq!(home.stdout(&["logout", "--mcp", "tickets"]), "tickets: forgotten\n");
    let again = home.run(&["logout", "--mcp", "tickets"]);
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(!again.status.success() && said.contains("there is no login to `tickets`"), "{said}");
    assert!(stored(&home).is_empty());
}

#[test]
fn tokens_that_are_about_to_expire_are_renewed_first_with_the_clients_secret() {
    let client = ("acpd at home".to_owned(), "cl1ent&s3cret".to_owned());
    let oauth = OauthServer::start(OauthRules { lifetime: json!(0), client: Some(client), ..OauthRules::default() });
    let settings = "oauth = { client_id = \"acpd at home\", client_secret = \"${TICKETS_SECRET}\" }\n";
    let (_model, home) = home(&oauth, settings);
    let missing = String::from_utf8(home.run(&["login", "--mcp", "tickets"]).stderr).unwrap();
    assert!(missing.contains("the variable TICKETS_SECRET is not set"), "{missing}");
    let mut command = home.acpd(&["login", "--mcp", "tickets"]);
    command.env("TICKETS_SECRET", "cl1ent&s3cret");
    LoginCommand::start(command).approve();
    assert!(ask(&home).contains("the coffee is cold"));
    assert!(oauth.renewals() > 0);
    assert_eq!(oauth.complaints(), [""; 0]);
}

#[test]
fn a_server_may_require_a_login_only_for_calls() {
    let oauth = OauthServer::start(OauthRules { late: true, ..OauthRules::default() });
    let (_model, home) = home(&oauth, "");
    let _daemon = serve(&home);
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    until_shown(&home, "    ready\n");
    let ask = || home.stdout(&["ask", "--allow", "--session", &session, "what is new?"]);
    let said = ask();
    assert!(said.contains("The server wants a login for this call, which had no effect."), "{said}");
    assert!(said.contains("with `acpd login --mcp tickets` in a terminal"), "{said}");
    // The server stays connected, and so do its other tools.
    let shown = until_shown(&home, "    login    some calls need one: run `acpd login --mcp tickets`\n");
    assert!(shown.contains("    ready\n") && shown.contains("mcp__tickets__list"), "{shown}");
    log_in(&home);
    until("the demand to be forgotten", || (!home.stdout(&["ctl", "mcp"]).contains("some calls")).then_some(()));
    let said = ask();
    assert!(said.contains("the coffee is cold"), "{said}");
    assert_eq!(oauth.complaints(), [""; 0]);
    oauth.revoke();
    let said = ask();
    assert!(said.contains("The server wants a login for this call, which had no effect."), "{said}");
}

#[test]
fn a_login_with_too_few_rights_is_extended() {
    let oauth = OauthServer::start(OauthRules { call_scope: Some("tickets.write"), ..OauthRules::default() });
    let (_model, home) = home(&oauth, "");
    log_in(&home);
    let _daemon = serve(&home);
    let mut editor = home.bridge();
    let session = editor.open(&home.work());
    until_shown(&home, "    ready\n");
    let ask = || home.stdout(&["ask", "--allow", "--session", &session, "what is new?"]);
    let said = ask();
    assert!(said.contains("The server wants a login with more rights for this call, which had no effect."), "{said}");
    let command = "acpd login --mcp tickets --scope tickets.write";
    assert!(said.contains(&format!("with `{command}` in a terminal")), "{said}");
    until_shown(&home, &format!("some calls need one: run `{command}`\n"));
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    LoginCommand::start(home.acpd(&arguments)).approve();
    let said = ask();
    assert!(said.contains("the coffee is cold"), "{said}");
    until("the demand to be forgotten", || (!home.stdout(&["ctl", "mcp"]).contains("some calls")).then_some(()));
    assert_eq!(oauth.complaints(), [""; 0]);
    assert_hidden(&oauth.secrets(), "the log", &home.log());
}

#[test]
fn a_lifetime_that_is_text_is_accepted_by_the_first_exchange() {
    for lifetime in [json!("0"), json!(-1), json!("never")] {
        let is_due = lifetime == "0";
        let oauth = OauthServer::start(OauthRules { lifetime, ..OauthRules::default() });
        let (_model, home) = home(&oauth, "");
        log_in(&home);
        assert!(ask(&home).contains("the coffee is cold"));
        assert_eq!(oauth.renewals() > 0, is_due, "only a known lifetime ends");
        assert_eq!(oauth.complaints(), [""; 0]);
    }
}

#[test]
fn a_stored_login_that_cannot_be_read_is_reported_and_kept() {
    let oauth = OauthServer::start(OauthRules::default());
    let (_model, home) = home(&oauth, "");
    log_in(&home);
    let [path] = &stored(&home)[..] else { panic!("one login is stored") };
    let damaged = fs::read_to_string(path).unwrap().split_off(9);
    fs::write(path, &damaged).unwrap();
    let _daemon = serve(&home);
    let mut editor = home.bridge();
    editor.open(&home.work());
    let why = format!("(the stored login cannot be read: {}: it does not hold a login)", path.display());
    until_shown(&home, &format!("needs a login: run `acpd login --mcp tickets` {why}"));
    let said = LoginCommand::start(home.acpd(&["login", "--mcp", "tickets"])).approve();
    let aside = path.with_extension("unreadable");
    let moved = format!("the file of the earlier login could not be read; it is now {}\n", aside.display());
    assert!(said.starts_with(&moved), "{said}");
    assert_eq!(fs::read_to_string(&aside).unwrap(), damaged);
    until_shown(&home, "    ready\n");
    assert_hidden(&oauth.secrets(), "the log", &home.log());
}

#[test]
fn a_login_on_two_hosts_is_shown_before_anything_opens_its_page() {
    let oauth = OauthServer::start(OauthRules { split: true, ..OauthRules::default() });
    let honest = OauthServer::start(OauthRules::default());
    let (_model, home) = home(&oauth, "");
    let programs = home.path().join("programs");
    let opened = home.path().join("opened");
    fs::create_dir(&programs).unwrap();
    let browser = programs.join("xdg-open");
    fs::write(&browser, format!("#!/bin/sh\necho \"$1\" >> '{}'\n", opened.display())).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let log_in = |server: &str| {
        let mut command = home.acpd(&["login", "--mcp", server]);
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("DISPLAY", ":1");
        let mut terminal = Terminal::start(&command);
        terminal.until_seen("press Enter.");
        let seen = terminal.seen();
        let page = seen.lines().map(str::trim).find(|line| line.starts_with("http://")).unwrap();
        terminal.type_in(&format!("{}\n", approve(page)));
        assert!(terminal.wait().success());
        seen
    };
    let said = log_in("tickets");
    let origin = oauth.mcp().trim_end_matches("/mcp").to_owned();
    let before = said.split("Open this page").next().unwrap();
    assert!(before.contains(&format!("approve this login at {origin}, ")), "{said}");
    assert!(before.contains(&format!("the tokens from {}.", origin.replace("127.0.0.1", "localhost"))), "{said}");
    assert_eq!(oauth.complaints(), [""; 0]);
    // The page of another login is opened, and it is the only one.
    assert!(!log_in(&honest.mcp()).contains("Warning"));
    let opened = until("the browser to open", || fs::read_to_string(&opened).ok().filter(|text| text.ends_with('\n')));
    let [page] = opened.lines().collect::<Vec<_>>()[..] else { panic!("{opened}") };
    assert!(honest.mcp().starts_with(page.split("/authorize").next().unwrap()), "{page}");
}

#[test]
fn a_login_belongs_to_the_exact_address_of_its_server() {
    let oauth = OauthServer::start(OauthRules::default());
    let (_model, home) = home(&oauth, "");
    log_in(&home);
    // Somebody else's server under the same name, and then another path of the same one.
    let other = Server::with(|_, _| Reply::new(401, &[("www-authenticate", "Bearer")], ""));
    for address in [format!("{}/mcp", other.address), format!("{}?team=1", oauth.mcp())] {
        let config = home.path().join("home/.config/acpd/config.toml");
        let text = fs::read_to_string(&config).unwrap();
        let lines = text.lines().map(|line| {
            if line.starts_with("url = ") { format!("url = \"{address}\"\n") } else { format!("{line}\n") }
        });
        fs::write(&config, lines.collect::<String>()).unwrap();
        let _daemon = home.serve();
        let mut editor = home.bridge();
        editor.open(&home.work());
        until_shown(&home, "needs a login: run `acpd login --mcp tickets`");
    }
    let sent = |request: &testkit::provider::RecordedRequest| !request.header("authorization").is_empty();
    assert!(!other.requests().is_empty() && !other.requests().iter().any(sent));
    assert!(!oauth.requests().iter().any(|request| request.path.contains("team=1") && sent(request)));
}

#[test]
fn an_editors_server_is_logged_in_to_by_its_address_if_that_is_safe() {
    let oauth = OauthServer::start(OauthRules::default());
    let home = Home::new();
    let _daemon = home.serve();
    let mut editor = home.bridge();
    editor.initialize();
    let servers = json!([{ "type": "http", "name": "mine", "url": oauth.mcp(), "headers": [] }]);
    editor.ask("session/new", json!({ "cwd": home.work(), "mcpServers": servers }));
    until_shown(&home, &format!("needs a login: run `acpd login --mcp {}`", oauth.mcp()));
    LoginCommand::start(home.acpd(&["login", "--mcp", &oauth.mcp()])).approve();
    until_shown(&home, "    ready\n");
    let failure = |server: &str| {
        let output = home.run(&["login", "--mcp", server]);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = failure("http://a.example/mcp");
    assert!(said.contains("`http://a.example/mcp` is not the address of a server; it needs https"), "{said}");
    let said = failure("nobody");
    assert!(said.contains("there is no MCP server `nobody`"), "{said}");
    let open = Server::with(|_, _| Reply::json(200, &json!({})));
    let said = failure(&format!("{}/mcp", open.address));
    assert!(said.contains("the server needs no login"), "{said}");
    let silent = Server::with(|_, _| Reply::json(404, &json!({})));
    let said = failure(&format!("{}/mcp", silent.address));
    assert!(said.contains("does not publish how to log in"), "{said}");
    // Its challenge alone is larger than any address.
    let scopes = format!("Bearer scope=\"{}\"", "x".repeat(20 << 10));
    let verbose = OauthServer::start(OauthRules { challenge: Some(scopes), ..OauthRules::default() });
    assert!(failure(&verbose.mcp()).contains("the server names too many scopes"));
    let endless = Server::with(|request, _| match request.method.as_str() {
        "POST" => Reply::new(401, &[("www-authenticate", "Bearer")], ""),
        _ => {
            let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n";
            Reply(vec![Action::Write(head.to_vec()), Action::Flood(vec![b' '; 1 << 16], 1 << 12)])
        }
    });
    let said = failure(&format!("{}/mcp", endless.address));
    assert!(said.contains("the answer is larger than"), "{said}");
}
