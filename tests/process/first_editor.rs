//! The editor that starts the daemon does not decide the settings, the proxy or the certificates of
//! other editors.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::{fs, thread};

use serde_json::json;
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{Reply, Server};

use crate::harness::{Home, Peer, finish};

/// Variables of the first editor, which must not reach any other.
const OF_ONE_EDITOR: [(&str, &str); 10] = [
    ("ACPD__SESSION__APPROVAL", "never"),
    ("ACPD__LOG__FILTER", "trace"),
    ("ACPD_TOKEN", "0123456789abcdef"),
    ("HTTPS_PROXY", "http://127.0.0.1:1"),
    ("http_proxy", "http://127.0.0.1:1"),
    ("ALL_PROXY", "http://127.0.0.1:1"),
    ("NO_PROXY", "*"),
    ("SSL_CERT_FILE", "/nowhere.pem"),
    ("SSL_CERT_DIR", "/nowhere"),
    ("CREDENTIALS_DIRECTORY", "/nowhere"),
];

fn first_editor(home: &Home) -> Peer {
    let mut bridge = home.acpd(&["acp"]);
    bridge.envs(OF_ONE_EDITOR);
    Peer::spawn(bridge)
}

/// Start-up files, one of which this user's shell reads, whichever shell it is.
fn profile(home: &Home, text: &str) {
    for name in [".bash_profile", ".profile", ".zprofile"] {
        fs::write(home.path().join("home").join(name), text).unwrap();
    }
}

#[test]
fn the_environment_of_the_editor_that_starts_the_daemon_configures_nothing() {
    let home = Home::new();
    let _first = {
        let mut bridge = first_editor(&home);
        bridge.initialize();
        bridge
    };
    let environment = fs::read(format!("/proc/{}/environ", home.daemon().unwrap())).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let names: Vec<&str> = environment.split('\0').filter_map(|line| Some(line.split_once('=')?.0)).collect();
    for (name, _) in OF_ONE_EDITOR {
        assert!(!names.contains(&name), "{name} reached the daemon: {names:?}");
    }
    // A session of another editor asks, as configured.
    let mut second = home.bridge();
    let session = second.open(&home.work());
    let prompt = second.start_prompt(&session, "run the command: touch made");
    let question = second.question();
    second.allow(&question);
    assert_eq!(second.answer(prompt)["result"]["stopReason"], "end_turn");
    let log = fs::read_to_string(home.state().join("daemon.log")).unwrap();
    assert!(!log.contains("TRACE"), "the first editor's log filter is in use: {log}");
    // A user who runs the daemon by hand may set its environment.
    drop((second, _first));
    home.stdout(&["ctl", "stop"]);
    let mut serve = home.acpd(&["serve"]);
    serve.env("ACPD__SESSION__APPROVAL", "never");
    let _daemon = home.start(serve);
    let mut third = home.bridge();
    let session = third.open(&home.work());
    assert_eq!(third.prompt(&session, "run the command: touch made")["result"]["stopReason"], "end_turn");
}

#[test]
fn an_editor_that_expects_other_folders_is_refused() {
    for (variable, expected) in
        [("XDG_STATE_HOME", "keeps its state in"), ("XDG_CONFIG_HOME", "uses the configuration")]
    {
        let home = Home::new();
        let elsewhere = home.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let mut first = home.acpd(&["acp"]);
        first.env(variable, &elsewhere).env("XDG_DATA_HOME", "/one/editor");
        let mut first = Peer::spawn(first);
        first.initialize();
        let error = home.bridge().ask_for_error("initialize", json!({ "protocolVersion": 1 }));
        let said = error["message"].as_str().unwrap();
        assert!(said.contains(expected) && said.contains("elsewhere/acpd"), "{error}");
        assert!(error["data"]["hint"].as_str().unwrap().starts_with(&format!("set {variable} as")), "{error}");
        let asked = finish(home.acpd(&["ask", "list the files"]));
        let said = String::from_utf8(asked.stderr).unwrap();
        assert!(said.contains(expected) && !asked.status.success(), "{said}");
        // The same folders by another name are the same.
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let mut third = home.acpd(&["acp"]);
        third.env(variable, link);
        let mut third = Peer::spawn(third);
        third.initialize();
        let daemon = home.daemon().unwrap();
        let environment = fs::read_to_string(format!("/proc/{daemon}/environ")).unwrap();
        assert!(!environment.contains("/one/editor"), "{environment}");
        // It listens where this home looks for a daemon, and ends with it.
        drop((first, third));
        let mut stop = home.acpd(&["ctl", "stop"]);
        stop.env(variable, &elsewhere);
        assert!(finish(stop).status.success());
    }
}

/// A home whose model is on another machine, which can be reached through a proxy only.
fn behind_proxy(network: &str) -> Home {
    let home = Home::new();
    home.configure(&format!(
        "[models]\ndefault = \"far/far\"\n[models.local]\nprobe = false\n[models.retry]\ntries = 1\n\
         [models.providers.far]\nkind = \"openai\"\nbase_url = \"http://provider.invalid/v1\"\n\
         key = {{ env = \"FAKE_KEY\" }}\n[[models.providers.far.models]]\nid = \"far\"\nwindow = 100000\n{network}"
    ));
    home
}

/// Plays a proxy that answers for the machine behind it.
fn proxy() -> Server {
    Server::with(|_, _| Reply::stream(&[&ModelAnswer::text("Through the proxy.").sse(Dialect::Chat)]))
}

fn is_answered(home: &Home) -> String {
    let mut bridge = home.acpd(&["acp"]);
    bridge.env("FAKE_KEY", "sk-process-0123456789").envs(OF_ONE_EDITOR);
    let mut bridge = Peer::spawn(bridge);
    let session = bridge.open(&home.work());
    let answer = bridge.prompt(&session, "hello");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    bridge.agent_text()
}

#[test]
fn a_daemon_started_by_an_editor_uses_the_login_shells_proxy() {
    let proxy = proxy();
    let home = behind_proxy("");
    profile(&home, &format!("export HTTP_PROXY={}", proxy.address));
    assert_eq!(is_answered(&home), "Through the proxy.");
    let shown = home.json(&["config", "show", "--changed", "--json"]);
    let shown = shown.as_array().unwrap().iter().find(|shown| shown["key"] == "network.proxy").unwrap().clone();
    assert_eq!(shown["value"].as_str(), Some(proxy.address.as_str()));
    assert_eq!(shown["source"], "the login shell's environment");
}

/// Plays a SOCKS 5 proxy that leads to `target`, and reports the names of the hosts that it was
/// asked for.
fn socks_proxy(target: String) -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (report, asked) = mpsc::channel();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (report, target) = (report.clone(), target.clone());
            thread::spawn(move || drop(serve_socks(client, &target, &report)));
        }
    });
    (port, asked)
}

fn serve_socks(mut client: TcpStream, target: &str, report: &mpsc::Sender<String>) -> io::Result<()> {
    let mut greeting = [0; 2];
    client.read_exact(&mut greeting)?;
    client.read_exact(&mut vec![0; greeting[1].into()])?;
    client.write_all(&[5, 0])?;
    // Version, connect, reserved, by name, length of the name; then the name and the port.
    let mut request = [0; 5];
    client.read_exact(&mut request)?;
    let mut host = vec![0; usize::from(request[4]) + 2];
    client.read_exact(&mut host)?;
    host.truncate(request[4].into());
    let _ = report.send(String::from_utf8_lossy(&host).into_owned());
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    let mut server = TcpStream::connect(target.trim_start_matches("http://"))?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || io::copy(&mut from_client, &mut to_server));
    io::copy(&mut server, &mut client).map(drop)
}

#[test]
fn a_socks_proxy_of_the_configuration_is_used() {
    let provider = proxy();
    let (port, asked) = socks_proxy(provider.address.clone());
    let home = behind_proxy(&format!("[network]\nproxy = \"socks5h://127.0.0.1:{port}\"\n"));
    assert_eq!(is_answered(&home), "Through the proxy.");
    assert_eq!(asked.recv().unwrap(), "provider.invalid");
}

#[test]
fn the_proxy_of_the_configuration_wins_over_that_of_the_login_shell() {
    let proxy = proxy();
    let home = behind_proxy(&format!("[network]\nproxy = \"{}\"\n", proxy.address));
    profile(&home, "export HTTP_PROXY=http://127.0.0.1:1");
    assert_eq!(is_answered(&home), "Through the proxy.");
}

#[test]
fn the_certificates_of_the_configuration_and_of_the_login_shell_are_trusted() {
    let answer = || Reply::stream(&[&ModelAnswer::text("Safely.").sse(Dialect::Chat)]);
    let (server, authority) = Server::secure(move |_, _| answer());
    for configured in [true, false] {
        let home = Home::new();
        let pem = home.path().join("authority.pem");
        fs::write(&pem, &authority).unwrap();
        let network = format!("[network]\ncertificates = [\"{}\"]\n", pem.display());
        home.configure(&format!(
            "[models]\ndefault = \"far/far\"\n[models.local]\nprobe = false\n[models.providers.far]\nkind = \"openai\"\n\
             base_url = \"{}\"\nkey = {{ env = \"FAKE_KEY\" }}\n[[models.providers.far.models]]\nid = \"far\"\n\
             window = 100000\n{}",
            server.address,
            if configured { network.as_str() } else { "" }
        ));
        if !configured {
            profile(&home, &format!("export SSL_CERT_FILE={}", pem.display()));
        }
        assert_eq!(is_answered(&home), "Safely.");
    }
}

#[test]
fn config_show_marks_variables_of_serve_and_hides_proxy_passwords() {
    let home = Home::new();
    home.configure("[network]\nproxy = \"http://me:hush@proxy.example:3128\"\n");
    let mut show = home.acpd(&["config", "show"]);
    show.envs([("ACPD__LOG__FILTER", "debug"), ("HTTPS_PROXY", "http://127.0.0.1:1")]);
    let output = finish(show);
    let (shown, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(shown.contains("network.proxy = \"http://proxy.example:3128\"  # ~/.config/acpd/config.toml:2"), "{shown}");
    assert!(!shown.contains("hush"), "{shown}");
    assert!(stderr.contains("ACPD__LOG__FILTER, HTTPS_PROXY"), "{stderr}");
}
