//! `acpd models test` prints a true line for each provider: with the answers and errors that each
//! provider is known to send (`crates/models/tests/shapes`), and at the servers that validate
//! requests (`testkit::validation`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use testkit::provider::{Reply, Server};
use testkit::validation::{PROVIDERS, Provider};

use crate::harness::{Home, finish};

/// The parts of a file of shapes that a test of a model meets.
#[derive(Deserialize)]
struct Shapes {
    kind: String,
    base: String,
    list: List,
    stream: Stream,
    errors: Vec<Refusal>,
}

#[derive(Deserialize)]
struct List {
    body: String,
    #[serde(default)]
    other: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize)]
struct Stream {
    body: String,
    text: String,
    tokens: [u64; 3],
}

#[derive(Clone, Deserialize)]
struct Refusal {
    status: u16,
    body: String,
    detail: String,
}

/// Reads the shapes of all providers, by the names of their files.
fn shapes() -> BTreeMap<String, Shapes> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/models/tests/shapes");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let read = |path: &Path| toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    files.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), read(&path))).collect()
}

/// Starts a provider's server with its own list and this answer to every prompt.
fn server(list: List, answer: Reply) -> Server {
    Server::with(move |seen, _| match seen.method.as_str() {
        "GET" => {
            let body = list.other.get(&seen.path).unwrap_or(&list.body);
            Reply::new(200, &[("content-type", "application/json")], body)
        }
        _ => answer.clone(),
    })
}

fn section(name: &str, kind: &str, address: &str) -> String {
    format!(
        "[models.providers.{name}]\nkind = \"{kind}\"\nbase_url = \"{address}\"\nkey = {{ env = \"KEY_OF_ALL\" }}\n"
    )
}

/// Runs `acpd models test` with these providers and returns what it prints.
fn lines(sections: &str) -> (bool, Vec<String>) {
    let home = Home::new();
    home.configure(&format!("[models.local]\nprobe = false\n[models.retry]\ntries = 1\n{sections}"));
    let mut command = home.acpd(&["models", "test"]);
    command.env("KEY_OF_ALL", "sk-hush");
    let output = finish(command);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!said.contains("sk-hush"), "{said}");
    (output.status.success(), said.lines().map(str::to_owned).collect())
}

/// Returns the only line that begins with these words.
fn line<'a>(lines: &'a [String], beginning: &str) -> &'a str {
    let found: Vec<&String> = lines.iter().filter(|line| line.starts_with(beginning)).collect();
    assert_eq!(found.len(), 1, "{beginning}\n{lines:#?}");
    found[0]
}

#[test]
fn each_providers_own_answer_is_printed_with_its_counts() {
    let (mut servers, mut sections, mut expected) = (Vec::new(), String::new(), Vec::new());
    for (name, Shapes { kind, base, list, stream, .. }) in shapes() {
        let server = server(list, Reply::stream(&[stream.body.as_bytes()]));
        sections.push_str(&section(&name, &kind, &format!("{}{base}", server.address)));
        servers.push(server);
        expected.push((name, stream));
    }
    let (is_fine, said) = lines(&sections);
    assert!(is_fine, "{said:#?}");
    assert_eq!((expected.len(), said.len()), (11, 11), "{said:#?}");
    for (name, Stream { text, tokens: [input, output, _], .. }) in expected {
        let line = line(&said, &format!("ok    {name}/"));
        assert!(line.contains(&format!(": \"{text}\" after ")), "{line}");
        assert!(line.contains(&format!(" s in all, {input} tokens in, {output} out, ")), "{line}");
    }
}

#[test]
fn each_providers_own_errors_are_printed() {
    for at in 0..2 {
        let (mut servers, mut sections, mut expected) = (Vec::new(), String::new(), Vec::new());
        for (name, Shapes { kind, base, list, errors, .. }) in shapes() {
            let Refusal { status, body, detail } = errors[at].clone();
            let server = server(list, Reply::new(status, &[("content-type", "application/json")], &body));
            sections.push_str(&section(&name, &kind, &format!("{}{base}", server.address)));
            servers.push(server);
            expected.push((name, status, detail));
        }
        let (is_fine, said) = lines(&sections);
        assert!(!is_fine && said.len() == 11, "{said:#?}");
        for (name, status, detail) in expected {
            let line = line(&said, &format!("fail  {name}/"));
            let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
            assert!(line.contains(&format!("({status}){detail}")), "{line}");
        }
    }
}

#[test]
fn every_validating_server_accepts_the_test() {
    let (mut servers, mut sections) = (Vec::new(), String::new());
    for provider in PROVIDERS {
        let Provider { name, kind, base, model, .. } = provider;
        let server = provider.server();
        sections.push_str(&section(name, kind, &format!("{}{base}", server.address)));
        sections.push_str(&format!("models = [{{ id = \"{model}\", price = {{ input = 10.0, output = 100.0 }} }}]\n"));
        servers.push(server);
    }
    let (is_fine, said) = lines(&sections);
    assert!(is_fine && said.len() == PROVIDERS.len(), "{said:#?}");
    for (Provider { name, model, .. }, server) in PROVIDERS.iter().zip(&servers) {
        let line = line(&said, &format!("ok    {name}/{model}: \"I look.\" after "));
        // 120 tokens in, also those from the cache, and 30 out.
        assert!(line.ends_with("120 tokens in, 30 out, 0.004200 USD"), "{line}");
        assert_eq!(server.requests().len(), 1, "{name}");
    }
}
