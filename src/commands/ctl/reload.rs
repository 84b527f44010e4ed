//! `ctl reload`: has the daemon reload its configuration, and shows the result.

use domain::card::ReloadCard;
use serde_json::json;
use wire::method;

use super::DaemonClient;

pub(super) async fn run(daemon: &mut DaemonClient) -> anyhow::Result<()> {
    let card: ReloadCard = daemon.client.call(method::RELOAD, json!({})).await?;
    daemon.show(&card, || render(&card));
    Ok(())
}

fn render(card: &ReloadCard) -> String {
    let ReloadCard { now, later, restart } = card;
    let parts = [
        ("in effect now:", now),
        ("in effect for new sessions and connections:", later),
        ("in effect after `acpd ctl restart`:", restart),
    ];
    let parts = parts.into_iter().filter(|(_, keys)| !keys.is_empty());
    let text: String = parts.map(|(when, keys)| format!("{when}\n  {}\n", keys.join("\n  "))).collect();
    if text.is_empty() { "nothing changed".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_lists_when_each_key_takes_effect() {
        let card = ReloadCard {
            now: vec!["log.filter".to_owned()],
            later: Vec::new(),
            restart: vec!["history.cache".to_owned(), "http.listen".to_owned()],
        };
        let expected =
            "in effect now:\n  log.filter\nin effect after `acpd ctl restart`:\n  history.cache\n  http.listen\n";
        assert_eq!(render(&card), expected);
        assert_eq!(render(&ReloadCard::default()), "nothing changed");
    }
}
