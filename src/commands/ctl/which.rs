//! Which session is meant: an id may be given by its start or its end, if no other session has the same.
//!
//! Looks at what is in memory and then at what is stored, page by page. Changes nothing.

use anyhow::bail;
use serde_json::{Value, json};
use wire::method;

use super::{Visit, sessions};
use crate::client::Refused;

/// Letters of a whole id.
const WHOLE: usize = 36;

/// More matches than this are not looked for: they would only be listed.
const SHOWN: usize = 8;

/// The whole id.
pub(super) async fn find(visit: &mut Visit, given: &str) -> anyhow::Result<String> {
    visit.introduce().await?;
    let live = sessions::in_memory(visit).await?;
    let mut found: Vec<String> = live.iter().map(|card| card.id.to_string()).filter(|id| fits(id, given)).collect();
    if found.iter().any(|id| id == given) || is_stored(visit, given).await? {
        return Ok(given.to_owned());
    }
    let mut cursor = Value::Null;
    while given.len() < WHOLE && found.len() <= SHOWN {
        let (page, next) = sessions::page(visit, &cursor).await?;
        let stored = page.iter().filter_map(|session| session["sessionId"].as_str()).filter(|id| fits(id, given));
        for id in stored {
            if !found.iter().any(|known| known == id) {
                found.push(id.to_owned());
            }
        }
        cursor = next;
        if cursor.is_null() {
            break;
        }
    }
    choose(found, given)
}

pub(super) fn fits(id: &str, given: &str) -> bool {
    !given.is_empty() && (id.starts_with(given) || id.ends_with(given))
}

/// Whether there is a session of exactly this id; a look at the list would be long where there are many.
async fn is_stored(visit: &mut Visit, given: &str) -> anyhow::Result<bool> {
    if given.len() != WHOLE {
        return Ok(false);
    }
    let beyond_its_end = json!({ "sessionId": given, "from": u64::MAX });
    match visit.client.call::<Value>(method::EXPORT, beyond_its_end).await {
        Ok(_) => Ok(true),
        Err(error) if error.is::<Refused>() => Ok(false),
        Err(error) => Err(error),
    }
}

fn choose(mut found: Vec<String>, given: &str) -> anyhow::Result<String> {
    match found.len() {
        0 => bail!("no session's id begins or ends with `{given}`; `acpd ctl sessions --all` lists them"),
        1 => Ok(found.remove(0)),
        many => {
            let more = if many > SHOWN { "\n  ..." } else { "" };
            found.truncate(SHOWN);
            bail!("`{given}` may be any of these sessions; give more of the id\n  {}{more}", found.join("\n  "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_by_its_start_or_end_and_nothing_is_no_id() {
        assert!(fits("0193-ab", "0193") && fits("0193-ab", "ab") && fits("0193-ab", "0193-ab"));
        assert!(!fits("0193-ab", "93") && !fits("0193-ab", ""));
    }

    #[test]
    fn what_may_be_several_is_refused_with_their_names() {
        let ids = |many: usize| (0..many).map(|number| format!("id-{number}")).collect::<Vec<_>>();
        assert_eq!(choose(ids(1), "id").unwrap(), "id-0");
        assert!(choose(ids(0), "id").unwrap_err().to_string().starts_with("no session's id begins or ends with `id`"));
        let two = choose(ids(2), "id").unwrap_err().to_string();
        assert!(two.ends_with("give more of the id\n  id-0\n  id-1"), "{two}");
        assert!(choose(ids(9), "id").unwrap_err().to_string().ends_with("id-7\n  ..."));
    }
}
