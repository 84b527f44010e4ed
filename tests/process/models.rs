//! `acpd models` with a scripted provider: the list, the details, and the result of each test.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::answers::{Dialect, ModelAnswer};
use testkit::provider::{Reply, Server};

use crate::harness::{Home, finish};

fn provider() -> Server {
    Server::with(|seen, _| match (seen.method.as_str(), seen.body.contains("broken")) {
        ("GET", _) => Reply::json(200, &json!({ "data": [{ "id": "scripted-instruct" }, { "id": "gpt-4.1" }] })),
        (_, true) => Reply::json(400, &json!({ "error": { "message": "it is out of order" } })),
        (_, false) => Reply::stream(&[&ModelAnswer::text("Hello").sse(Dialect::Chat)]),
    })
}

fn acpd_models(home: &Home, server: &Server, args: &[&str]) -> std::process::Output {
    let mut command = home.acpd(&["models"]);
    command.args(args).env("ACPD__MODELS__LOCAL__PROBE", "false").env("OPENAI_API_KEY", "sk-hush");
    command.env("OPENAI_BASE_URL", format!("{}/v1", server.address));
    let output = finish(command);
    assert!(!format!("{output:?}").contains("sk-hush"), "{output:?}");
    output
}

#[test]
fn models_are_listed_and_filtered_and_guesses_are_marked() {
    let (home, server) = (Home::new(), provider());
    let output = acpd_models(&home, &server, &["list", "--json"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let brief =
        |model: &Value| (model["id"].as_str().unwrap().to_owned(), model["window"].clone(), model["guessed"] == true);
    let models: Vec<_> = list["models"].as_array().unwrap().iter().map(brief).collect();
    assert_eq!(
        models,
        [
            ("openai/scripted-instruct".to_owned(), json!(32_768), true),
            ("openai/gpt-4.1".to_owned(), json!(1_047_576), false),
        ]
    );
    let table = &list["table"];
    assert_eq!((&table["version"], table["date"].as_str().map(str::len)), (&json!(1), Some(10)), "{table}");
    for maker in ["Anthropic", "OpenAI", "Google", "DeepSeek", "Mistral", "xAI"] {
        assert!(table["sources"][maker].as_str().is_some_and(|source| source.len() > 20), "{maker}: {table}");
    }
    let all = |args: &[&str]| String::from_utf8(acpd_models(&home, &server, args).stdout).unwrap();
    assert_eq!((all(&[]), all(&[]).lines().count()), (all(&["list"]), 2), "the list needs no subcommand");
    let output = acpd_models(&home, &server, &["list", "INSTRUCT"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("32,768 tokens, guessed from an unknown name"), "{said}");
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert!(remarks.contains("bundled table, version 1, of 20"), "{remarks}");
    assert!(!acpd_models(&home, &server, &["list", "nothing-like-it"]).status.success());
    let output = acpd_models(&home, &server, &["list", "scripted-instrct"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no model matches; did you mean `openai/scripted-instruct`?"), "{said}");
}

#[test]
fn a_provider_without_models_is_listed_with_the_reason() {
    let (home, server) = (Home::new(), provider());
    let output = acpd_models(&home, &server, &["list"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("not available:\n"), "{said}");
    let why = "  anthropic: no key was found (looked at: environment variable ANTHROPIC_API_KEY";
    assert!(said.contains(why) && !said.contains("  openai: "), "{said}");
    let list = acpd_models(&home, &server, &["list", "--json"]).stdout;
    let list: Value = serde_json::from_slice(&list).unwrap();
    let names: Vec<&Value> = list["unavailable"].as_array().unwrap().iter().map(|one| &one["provider"]).collect();
    assert!(names.contains(&&json!("anthropic")) && !names.contains(&&json!("openai")), "{list}");
}

#[test]
fn the_default_model_is_written_to_the_configuration_and_used_by_the_daemon() {
    let (home, server) = (Home::new(), provider());
    let config = "# my settings\n[models.local]\nprobe = false # no servers here\n";
    home.configure(config);
    home.bridge().initialize();
    let written = || fs::read_to_string(home.path().join("home/.config/acpd/config.toml")).unwrap();
    let default = |args: &[&str]| acpd_models(&home, &server, &[&["default"], args].concat());
    assert_eq!(default(&[]).stdout, b"openai/gpt-4.1\n");
    assert_eq!(written(), config, "showing it changes nothing");

    for (name, said) in [
        ("openai/gpt-41", "there is no model `openai/gpt-41`; did you mean `openai/gpt-4.1`?"),
        ("anthropic/claude-opus-4-1", "anthropic: no key was found"),
        ("nobody/x", "there is no model `nobody/x`; `acpd models list` lists the models"),
    ] {
        let output = default(&[name]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains(said), "{error}");
    }
    assert_eq!(written(), config, "what cannot be used is not written");

    let output = default(&["openai/scripted-instruct"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("the running daemon has reloaded"), "{said}");
    for line in ["# my settings\n", "probe = false # no servers here\n", "default = \"openai/scripted-instruct\"\n"] {
        assert!(written().contains(line), "{}", written());
    }
    assert_eq!(home.json(&["ctl", "status", "--json"])["model"], "openai/scripted-instruct");
    assert_eq!(default(&[]).stdout, b"openai/scripted-instruct\n");

    // A default that does not exist does not prevent setting another one.
    home.configure("[models]\ndefault = \"nobody/x\"\n[models.local]\nprobe = false\n");
    assert!(default(&["--reset"]).status.success());
    assert_eq!(written(), "[models]\n[models.local]\nprobe = false\n");
    assert_eq!(home.json(&["ctl", "status", "--json"])["model"], "rehearsal");
}

#[test]
fn every_tested_model_has_a_correct_catalogue_entry() {
    let (home, server) = (Home::new(), provider());
    let output = acpd_models(&home, &server, &["test"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("ok    openai/gpt-4.1: \"Hello\" after "), "{said}");
    assert!(said.contains("120 tokens in, 30 out, 0.0"), "{said}");
    let output = acpd_models(&home, &server, &["test", "openai/broken"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success());
    assert_eq!(said, "fail  openai/broken: openai: the request was refused (400): it is out of order\n");
    let output = acpd_models(&home, &server, &["test", "opnai/gpt-4.1"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error, "acpd: there is no model `opnai/gpt-4.1`; did you mean `openai/gpt-4.1`?\n");
}

/// Runs `acpd models` with this configuration and no other provider.
fn acpd_models_with(config: &str, args: &[&str]) -> std::process::Output {
    let home = Home::new();
    home.configure(&format!("[models.local]\nprobe = false\n{config}"));
    let mut command = home.acpd(&["models"]);
    command.args(args).env("KEY_OF_ALL", "sk-hush");
    let output = finish(command);
    assert!(!format!("{output:?}").contains("sk-hush"), "{output:?}");
    output
}

fn section(name: &str, kind: &str, server: &Server) -> String {
    let address = &server.address;
    format!(
        "[models.providers.{name}]\nkind = \"{kind}\"\nbase_url = \"{address}\"\nkey = {{ env = \"KEY_OF_ALL\" }}\n"
    )
}

#[test]
fn a_test_prints_one_true_line_for_each_provider() {
    let speaker = |dialect: Dialect, list: Value| {
        Server::with(move |seen, _| match seen.method.as_str() {
            "GET" => Reply::json(200, &list),
            _ => Reply::stream(&[&ModelAnswer::text(format!("Hello from {dialect:?}")).sse(dialect)]),
        })
    };
    let data = |id: &str| json!({ "data": [{ "id": id }] });
    let tags = json!({ "models": [{ "name": "qwen3:8b", "model": "qwen3:8b" }] });
    let gemini =
        json!({ "models": [{ "name": "models/gemini-3-pro", "supportedGenerationMethods": ["generateContent"] }] });
    let servers = [
        ("a", "anthropic", speaker(Dialect::Anthropic, data("claude-sonnet-4-5"))),
        ("b", "openai", speaker(Dialect::Chat, data("some-instruct"))),
        ("c", "openai", speaker(Dialect::Mistral, data("mistral-large-latest"))),
        ("d", "openai_responses", speaker(Dialect::Responses, data("gpt-5.1"))),
        ("e", "gemini", speaker(Dialect::Gemini, gemini)),
        ("f", "ollama", speaker(Dialect::Ollama, tags)),
        ("g", "openai", Server::script(vec![Reply::json(401, &json!({ "error": { "message": "no" } }))])),
        ("h", "openai", Server::script(vec![Reply::json(200, &json!({ "data": [] }))])),
    ];
    let config: String = servers.iter().map(|(name, kind, server)| section(name, kind, server)).collect();
    let config = format!("{config}[models.providers.i]\nkind = \"anthropic\"\nkey = {{ env = \"KEY_OF_NOBODY\" }}\n");
    let output = acpd_models_with(&config, &["test"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success(), "three providers cannot be used");
    for line in [
        "ok    a/claude-sonnet-4-5: \"Hello from Anthropic\" after ",
        "ok    b/some-instruct: \"Hello from Chat\" after ",
        "ok    c/mistral-large-latest: \"Hello from Mistral\" after ",
        "ok    d/gpt-5.1: \"Hello from Responses\" after ",
        "ok    e/gemini-3-pro: \"Hello from Gemini\" after ",
        "ok    f/qwen3:8b: \"Hello from Ollama\" after ",
        "fail  g: the key was refused (401)",
        "fail  h: it answers, but lists no model that can be used here",
        "fail  i: no key was found (looked at: environment variable KEY_OF_NOBODY",
    ] {
        assert_eq!(said.lines().filter(|said| said.starts_with(line)).count(), 1, "{line}\n{said}");
    }
    assert_eq!(said.lines().count(), 9, "{said}");

    let output = acpd_models_with(&config, &["test", "b/some-instrct"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let hint = "; no list has this name, did you mean `b/some-instruct`?\n";
    assert!(said.starts_with("ok    b/some-instrct: ") && said.ends_with(hint), "{said}");
    let listed = String::from_utf8(acpd_models_with(&config, &["list"]).stderr).unwrap();
    assert_eq!(listed.matches("g: the key was refused").count(), 1, "a reason is given once: {listed}");
}

#[test]
fn overrides_replace_what_the_list_and_the_table_say_and_are_shown() {
    let server = provider();
    let config = format!(
        "{}[models.overrides.\"p/gpt-4.1\"]\nwindow = 9000\nprice = {{ input = 1.5, output = 2.5 }}\n\
         [models.overrides.\"scripted-*\"]\nimages = true\ndialect = \"responses\"\n",
        section("p", "openai", &server)
    );
    let output = acpd_models_with(&config, &["list", "--json"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let brief =
        |model: &Value| ["id", "window", "images", "dialect", "configured"].map(|field| model[field].clone()).to_vec();
    let models: Vec<Vec<Value>> = list["models"].as_array().unwrap().iter().map(brief).collect();
    assert_eq!(
        json!(models),
        json!([
            ["p/scripted-instruct", 32_768, true, "responses", ["images", "dialect"]],
            ["p/gpt-4.1", 9_000, true, "chat", ["window", "price"]],
        ])
    );
    let output = acpd_models_with(&config, &["list", "gpt"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("9,000 tokens, images, 1.5 in, 2.5 out USD per million, configured: window price"), "{said}");
}

#[test]
fn facts_are_written_to_the_configuration_and_used() {
    let (home, server) = (Home::new(), provider());
    let config = "# my settings\n[models.local]\nprobe = false # no servers here\n";
    home.configure(config);
    let written = || fs::read_to_string(home.path().join("home/.config/acpd/config.toml")).unwrap();
    let override_facts = |args: &[&str]| acpd_models(&home, &server, &[&["override"], args].concat());
    for (args, said) in [
        (&["scripted-instruct", "windw=9"][..], "windw: unknown key; did you mean `window`?"),
        (&["scripted-instruct", "price.input=1"], "price"),
        (&["scripted-instruct", "window"], "does not have the form FACT=VALUE"),
        (&["scripted-instruct", "dialect=gemini"], "`dialect` is `chat` or `responses`"),
        (&["scripted-instruct", "--reset"], "no facts about `scripted-instruct` are overridden"),
        (
            &["scripted-instrct", "window=9"],
            "there is no model `scripted-instrct`; did you mean `openai/scripted-instruct`?",
        ),
        (&["gpt-5.1-mimi", "window=9"], "`gpt-5-mini`? (`--new` accepts a name that no list has yet)"),
        (&["zzz/*", "window=9"], "there is no model `zzz/*`; `acpd models list` lists the models (`--new` accepts"),
    ] {
        let output = override_facts(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains(said), "{args:?} {error}");
        assert_eq!(written(), config, "{args:?}");
    }

    let output = override_facts(&["scripted-*", "window=9000", "price.input=1.5", "price.output=2.5", "images=true"]);
    assert!(output.status.success(), "{output:?}");
    assert!(written().starts_with(config), "{}", written());
    let list = acpd_models(&home, &server, &["list", "scripted"]).stdout;
    let list = String::from_utf8(list).unwrap();
    let facts = "9,000 tokens, images, 1.5 in, 2.5 out USD per million, configured: window images price";
    assert!(list.contains(facts) && !list.contains("guessed"), "{list}");

    // The built-in table has the first name, the provider's list the second, and neither the third.
    for (args, name) in [
        (&["claude-opus-5", "window=7"][..], "claude-opus-5"),
        (&["openai/scripted-instruct", "window=8"], "openai/scripted-instruct"),
        (&["not-yet-listed", "window=9", "--new"], "not-yet-listed"),
    ] {
        let output = override_facts(args);
        assert!(output.status.success() && written().contains(name), "{output:?}");
        assert!(override_facts(&[name, "--reset"]).status.success());
    }

    assert!(override_facts(&["scripted-*", "--reset"]).status.success());
    let list = acpd_models(&home, &server, &["list", "scripted"]).stdout;
    assert!(String::from_utf8(list).unwrap().contains("32,768 tokens, guessed from an unknown name"));
}

#[test]
fn facts_that_are_written_at_once_are_all_in_the_configuration() {
    let home = Home::new();
    home.configure("[models.local]\nprobe = false\n");
    let names: Vec<String> = (0..10).map(|number| format!("model-{number}")).collect();
    let started: Vec<_> = names
        .iter()
        .flat_map(|name| {
            let agent = ["agents", "add", name, "--yes", "--", "sh"];
            [home.acpd(&["models", "override", name, "window=9000", "--new"]), home.acpd(&agent)]
        })
        .map(|mut command| command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    for child in started {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let written = fs::read_to_string(home.path().join("home/.config/acpd/config.toml")).unwrap();
    let written: toml::Table = written.parse().unwrap();
    for name in &names {
        assert_eq!(written["models"]["overrides"][name.as_str()]["window"].as_integer(), Some(9000), "{written}");
        assert_eq!(written["agents"][name.as_str()]["command"].as_str(), Some("sh"), "{written}");
    }
}
