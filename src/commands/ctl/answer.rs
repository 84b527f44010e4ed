//! `ctl allow`, `ctl deny` and `ctl answer`: answer a question that a session waits for, after
//! printing it.

#![allow(clippy::print_stdout, reason = "what is answered is printed")]

use anyhow::{Context, bail};
use domain::card::{OpenQuestion, SessionDetails};
use domain::inquiry::{Inquiry, InquiryChoice, OWN_WORDS};
use domain::{Choice, SessionId};
use serde_json::{Value, json};
use terminal::consent::Consent;
use terminal::style::Colors;
use terminal::table::{Column, Table, Viewport};
use wire::method;

use super::DaemonClient;
use crate::cli::{AnswerArgs, PermissionArgs};
use crate::commands::session_lookup;

/// The user's answer to a permission question.
pub(super) enum Permission<'a> {
    /// `unseen` allows a call that is too long to be shown whole.
    Allow {
        unseen: bool,
    },
    Deny {
        reason: Option<&'a str>,
    },
}

/// Answers a permission question.
pub(super) async fn run(daemon: &mut DaemonClient, args: &PermissionArgs, given: Permission<'_>) -> anyhow::Result<()> {
    let (session, asked) = find(daemon, args.id.as_deref(), args.question.as_deref()).await?;
    if args.always && asked.always.is_none() {
        bail!("this question has no \"always\" answer; leave out --always");
    }
    let (choice, unseen, reason) = match (given, args.always) {
        (Permission::Allow { unseen }, false) => (Choice::AllowOnce, unseen, None),
        (Permission::Allow { unseen }, true) => (Choice::AllowAlways, unseen, None),
        (Permission::Deny { reason }, false) => (Choice::RejectOnce, false, reason),
        (Permission::Deny { reason }, true) => (Choice::RejectAlways, false, reason),
    };
    if choice.allows() && asked.inquiry.is_some() {
        bail!("the agent asks you something; answer with `acpd ctl answer {session} --choice` or `--text`");
    }
    let consent = Consent::of(&asked);
    if choice.allows() && consent.cut() > 0 && !unseen {
        bail!(
            "the call is too long to be shown whole, {} bytes are missing; read all of it with `acpd ctl export \
             {session}`, then allow it with --unseen",
            consent.cut()
        );
    }
    let viewport = Viewport::stdout();
    if !daemon.json {
        println!("{}", consent.title());
        let rest = format!("acpd ctl export {session}");
        let rows = consent.rows(viewport.width, viewport.colors);
        rows.into_iter().chain(consent.missing(&rest)).for_each(|row| println!("{row}"));
    }
    let answer = json!({ "sessionId": session, "questionId": asked.id, "optionId": choice.id(), "words": reason });
    let _: Value = daemon.client.call(method::ANSWER, &answer).await?;
    let report = json!({ "sessionId": session, "optionId": choice.id(), "question": asked });
    let done = if choice.allows() { "allowed" } else { "denied" };
    daemon.show(&report, || format!("{done}: {}; session {session}", consent.title()));
    Ok(())
}

/// Answers an inquiry with a choice, in the user's own words, or both.
pub(super) async fn reply(daemon: &mut DaemonClient, args: &AnswerArgs) -> anyhow::Result<()> {
    let (session, asked) = find(daemon, args.id.as_deref(), args.question.as_deref()).await?;
    let Some(inquiry) = &asked.inquiry else {
        bail!("the agent asks for permission; answer with `acpd ctl allow {session}` or `deny`");
    };
    let option = match (&args.choice, &args.text) {
        (Some(choice), _) => pick(inquiry, choice)?,
        (None, Some(_)) if inquiry.free_text => OWN_WORDS,
        (None, Some(_)) => bail!("this question takes one of its choices: {}", list(inquiry)),
        (None, None) if inquiry.choices.is_empty() => bail!("give the answer with --text"),
        (None, None) => bail!("give the answer with --choice: {}", list(inquiry)),
    };
    let consent = Consent::of(&asked);
    if !daemon.json {
        println!("{}", consent.title());
        let viewport = Viewport::stdout();
        let rest = format!("acpd ctl export {session}");
        let rows = consent.rows(viewport.width, viewport.colors);
        rows.into_iter().chain(consent.missing(&rest)).for_each(|row| println!("{row}"));
    }
    let answer = json!({ "sessionId": session, "questionId": asked.id, "optionId": option, "words": args.text });
    let _: Value = daemon.client.call(method::ANSWER, &answer).await?;
    let report = json!({ "sessionId": session, "optionId": option, "words": args.text, "question": asked });
    daemon.show(&report, || format!("answered: {}; session {session}", consent.title()));
    Ok(())
}

/// Returns the choice with this number or label.
fn pick<'a>(inquiry: &'a Inquiry, wanted: &str) -> anyhow::Result<&'a str> {
    let numbered = wanted.parse::<usize>().ok().and_then(|number| inquiry.choices.get(number.checked_sub(1)?));
    let labelled = || inquiry.choices.iter().find(|choice| choice.label.eq_ignore_ascii_case(wanted));
    let named = || inquiry.choices.iter().find(|choice| choice.id == wanted);
    let found = numbered.or_else(labelled).or_else(named);
    let found = found.with_context(|| format!("there is no choice `{wanted}`; there are {}", list(inquiry)))?;
    Ok(&found.id)
}

fn list(inquiry: &Inquiry) -> String {
    let one = |(at, choice): (usize, &InquiryChoice)| format!("\n  {} {}", at + 1, choice.label);
    inquiry.choices.iter().enumerate().map(one).collect()
}

/// Finds the question to answer, with its full contents.
async fn find(
    daemon: &mut DaemonClient,
    id: Option<&str>,
    question: Option<&str>,
) -> anyhow::Result<(SessionId, OpenQuestion)> {
    daemon.introduce().await?;
    let session = match id {
        Some(id) => Some(daemon.find(id).await?),
        None => None,
    };
    let sessions = session_lookup::in_memory(&mut daemon.client).await?.into_iter();
    let wanted = sessions.filter(|card| session.as_deref().is_none_or(|wanted| card.id.as_str() == wanted));
    let open = wanted.flat_map(|card| card.questions.into_iter().map(move |asked| (card.id.clone(), asked)));
    let (session, asked) = choose(open.collect(), question, session.is_some(), Viewport::stdout())?;
    // The list cuts questions at a lower limit than the details of one session do.
    let details: SessionDetails = daemon.client.call(method::SESSION, json!({ "sessionId": session })).await?;
    let whole = details.card.questions.into_iter().find(|whole| whole.id == asked.id);
    Ok((session, whole.context("the question was answered meanwhile")?))
}

type Open = (SessionId, OpenQuestion);

/// Chooses the question to answer. `named` means that the user named the session of the questions.
fn choose(questions: Vec<Open>, given: Option<&str>, named: bool, viewport: Viewport) -> anyhow::Result<Open> {
    let fits = |(_, asked): &&Open| given.is_none_or(|given| session_lookup::fits(asked.id.as_str(), given));
    let mut found = questions.iter().filter(fits);
    match (found.next(), found.next(), given) {
        (Some(asked), None, _) => Ok(asked.clone()),
        (None, _, None) if named => bail!("the session has no open question"),
        (None, _, None) => bail!("no question is open"),
        (None, _, Some(given)) => bail!("the session has no open question `{given}`"),
        (Some(_), Some(_), _) => {
            let mut list =
                Table::new([Column::id("SESSION"), Column::id("QUESTION"), Column::keeping_start("ASKS TO")]);
            for (session, asked) in &questions {
                list.row([session.to_string(), asked.id.to_string(), asked.title.clone()]);
            }
            let how = if named { "the question as well" } else { "a session, or a session and its question" };
            // Colours would be escaped in an error.
            let list = list.render(Viewport { colors: Colors::Off, ..viewport });
            bail!("several questions are open; name {how}\n{list}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(session: &str, id: &str) -> Open {
        let question = OpenQuestion {
            id: id.into(),
            call: "call".into(),
            title: format!("do {id}"),
            always: None,
            inquiry: None,
            proposal: None,
        };
        (session.into(), question)
    }

    #[test]
    fn a_choice_is_picked_by_number_label_or_id() {
        let choice = |id: &str, label: &str| InquiryChoice { id: id.into(), label: label.into(), description: None };
        let choices = vec![choice("choice_1", "Two"), choice("choice_2", "Three")];
        let asked = Inquiry { text: "How many?".to_owned(), choices, free_text: false, purpose: Default::default() };
        assert_eq!(pick(&asked, "2").unwrap(), "choice_2");
        assert_eq!(pick(&asked, "two").unwrap(), "choice_1");
        assert_eq!(pick(&asked, "choice_2").unwrap(), "choice_2");
        let unknown = pick(&asked, "0").unwrap_err().to_string();
        assert_eq!(unknown, "there is no choice `0`; there are \n  1 Two\n  2 Three");
    }

    #[test]
    fn one_question_needs_no_name_and_several_do() {
        let two = [asked("s", "a-1"), asked("t", "b-2")];
        let pipe = Viewport { width: None, colors: Colors::On };
        let chosen =
            |questions: &[Open], given| choose(questions.to_vec(), given, false, pipe).map(|(_, asked)| asked.id);
        assert_eq!(chosen(&two[..1], None).unwrap().as_str(), "a-1");
        assert_eq!(chosen(&two, Some("2")).unwrap().as_str(), "b-2");
        let several = chosen(&two, None).unwrap_err().to_string();
        let list = "SESSION  QUESTION  ASKS TO\ns        a-1       do a-1\nt        b-2       do b-2";
        assert_eq!(
            several,
            format!("several questions are open; name a session, or a session and its question\n{list}")
        );
        assert!(chosen(&two, Some("c")).is_err());
        assert_eq!(chosen(&[], None).unwrap_err().to_string(), "no question is open");
        assert_eq!(choose(Vec::new(), None, true, pipe).unwrap_err().to_string(), "the session has no open question");
    }
}
