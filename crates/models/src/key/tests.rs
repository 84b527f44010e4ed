//! Tests of each source of a key, their order, and the errors of broken sources.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn environment(pairs: &[(&str, &str)]) -> Environment {
    let path = std::env::var("PATH").unwrap();
    let path = [("PATH", path.as_str())];
    pairs.iter().chain(&path).map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

async fn found(key_sources: &KeySources, pairs: &[(&str, &str)]) -> Result<Option<(String, String)>, String> {
    let key = key_sources.find(&environment(pairs)).await.map_err(|error| error.to_string())?;
    Ok(key.map(|key| (key.secret.expose().to_owned(), key.source)))
}

#[tokio::test]
async fn sources_are_asked_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let stored = folder.path().join("stored");
    let mut config =
        KeyConfig { env: Some("KEY".into()), file: Some(folder.path().join("file")), ..KeyConfig::default() };
    let mut key_sources = KeySources::new(config.clone(), Some(stored.clone()));
    let expect = |key: &str, source: String| Ok(Some((key.to_owned(), source)));

    key_sources.check_files().await;
    assert!(key_sources.expects_key() && !key_sources.is_likely(&environment(&[])));
    assert_eq!(found(&key_sources, &[("KEY", " ")]).await, Ok(None));
    write(&stored, "k1\n", 0o600);
    key_sources.check_files().await;
    assert!(key_sources.is_likely(&environment(&[])));
    assert_eq!(found(&key_sources, &[]).await, expect("k1", format!("stored key {}", stored.display())));
    write(&folder.path().join("file"), "k2", 0o400);
    assert_eq!(found(&key_sources, &[]).await.unwrap().unwrap().0, "k2");
    config.credential = Some("cred".into());
    key_sources = KeySources::new(config.clone(), None);
    key_sources.credentials = Some(folder.path().to_owned());
    assert_eq!(found(&key_sources, &[]).await.unwrap().unwrap().0, "k2");
    write(&folder.path().join("cred"), "k3", 0o400);
    assert_eq!(found(&key_sources, &[]).await, expect("k3", "systemd credential cred".into()));
    config.command = Some("echo k4 secret-argument | cut -d' ' -f1".into());
    key_sources = KeySources::new(config, None);
    assert_eq!(found(&key_sources, &[]).await, expect("k4", "key command `echo`".into()));
    assert_eq!(found(&key_sources, &[("KEY", "k5 ")]).await, expect("k5", "environment variable KEY".into()));
    assert!(key_sources.describe().starts_with("environment variable KEY, key command `echo`, key file "));
    assert!(!key_sources.describe().contains("secret-argument"));
}

#[tokio::test]
async fn a_file_that_others_may_read_is_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    write(&path, "top-secret", 0o640);
    let key_sources = KeySources::new(KeyConfig { file: Some(path.clone()), ..KeyConfig::default() }, None);
    let error = found(&key_sources, &[]).await.unwrap_err();
    assert_eq!(
        error,
        format!("the key file {} may be read by others (mode 0640); make it private with chmod 600", path.display())
    );
    write(&path, "two\nlines", 0o600);
    assert!(found(&key_sources, &[]).await.unwrap_err().ends_with("holds more than one line"));
    write(&path, " \n", 0o600);
    assert!(found(&key_sources, &[]).await.unwrap_err().ends_with("is empty"));
    let key_sources = KeySources::new(KeyConfig { file: Some(folder.path().to_owned()), ..KeyConfig::default() }, None);
    assert!(found(&key_sources, &[]).await.unwrap_err().ends_with("is not a file"));
}

#[tokio::test]
async fn a_command_runs_once_in_the_sessions_environment_and_again_when_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!("echo x >> {}; echo \"$PART-key\"", log.display());
    let key_sources = KeySources::new(KeyConfig { command: Some(command), ..KeyConfig::default() }, None);
    for _ in 0..3 {
        assert_eq!(found(&key_sources, &[("PART", "my")]).await.unwrap().unwrap().0, "my-key");
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), "x\n");
    let mine = environment(&[("PART", "my")]);
    assert!(key_sources.forget(&mine).await && !key_sources.forget(&mine).await);
    found(&key_sources, &[("PART", "my")]).await.unwrap();
    assert_eq!(fs::read_to_string(&log).unwrap(), "x\nx\n");
}

#[tokio::test]
async fn a_key_command_runs_again_in_a_different_environment() {
    let key_sources =
        KeySources::new(KeyConfig { command: Some("echo $PART-key".into()), ..KeyConfig::default() }, None);
    for _ in 0..2 {
        for part in ["my", "your"] {
            assert_eq!(found(&key_sources, &[("PART", part)]).await.unwrap().unwrap().0, format!("{part}-key"));
        }
    }
    assert!(key_sources.forget(&environment(&[("PART", "my")])).await);
    assert!(!key_sources.forget(&environment(&[("PART", "nobody's")])).await);
    assert!(key_sources.forget(&environment(&[("PART", "your")])).await);
}

#[test]
fn only_so_many_environments_are_remembered() {
    let answers = CommandOutputs::default();
    let mine = answers.of(&environment(&[]));
    for number in 0..1000 {
        answers.of(&environment(&[("PART", &number.to_string())]));
        assert!(answers.by_environment.lock().unwrap().len() <= MAX_ENVIRONMENTS);
    }
    assert!(Arc::ptr_eq(&mine, &answers.of(&environment(&[]))));
}

#[tokio::test]
async fn a_failing_key_command_is_named_without_arguments_and_cleaned_up() {
    let failing = KeyConfig { command: Some("false sk-argument".into()), ..KeyConfig::default() };
    let error = found(&KeySources::new(failing, None), &[]).await.unwrap_err();
    assert_eq!(error, "the key command `false` failed with exit status: 1");

    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let command = format!("sleep 600 & echo $! > {}; wait", pid.display());
    let hanging = KeyConfig { command: Some(command), command_seconds: Some(0), ..KeyConfig::default() };
    let key_sources = KeySources::new(hanging, None);
    let looking = found(&key_sources, &[]);
    assert_eq!(looking.await.unwrap_err(), "the key command `sleep` took longer than 0 s");

    let command = format!("sleep 600 & echo $! > {}; wait", pid.display());
    let key_sources = KeySources::new(KeyConfig { command: Some(command), ..KeyConfig::default() }, None);
    {
        let environment = environment(&[]);
        let mut looking = Box::pin(key_sources.find(&environment));
        // The file exists once the shell has written its child's process id; only then is the
        // lookup dropped.
        loop {
            tokio::select! {
                biased;
                found = &mut looking => panic!("{found:?}"),
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
            if fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')) {
                break;
            }
        }
    }
    let sleeper = fs::read_to_string(&pid).unwrap().trim().to_owned();
    let is_alive = || {
        let stat = fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    for _ in 0..400 {
        if !is_alive() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the key command's child is still there");
}

#[test]
fn a_credential_is_a_name_and_never_a_path() {
    let config = KeyConfig { credential: Some("../etc/passwd".into()), ..KeyConfig::default() };
    let mut key_sources = KeySources::new(config, None);
    key_sources.credentials = Some("/run/credentials".into());
    assert_eq!(key_sources.files().count(), 0);
}

/// Checking or reading the files hangs, as on a network folder that does not respond.
#[tokio::test(start_paused = true)]
async fn reading_an_unresponsive_key_file_ends_at_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    write(&path, "k1", 0o600);
    let key_sources = KeySources::new(KeyConfig { file: Some(path), ..KeyConfig::default() }, None);
    key_sources.file_check.send_modify(|looked| looked.busy = true);
    key_sources.check_files().await;
    assert!(!key_sources.is_likely(&environment(&[])));
    let hangs = key_sources.reading.clone().lock_owned().await;
    let error = found(&key_sources, &[]).await.unwrap_err();
    assert_eq!(error, "the key file could not be read within 5 s");
    drop(hangs);
    key_sources.file_check.send_modify(|looked| looked.busy = false);
    key_sources.check_files().await;
    assert!(key_sources.is_likely(&environment(&[])));
    assert_eq!(found(&key_sources, &[]).await.unwrap().unwrap().0, "k1");
}

#[tokio::test]
async fn a_command_that_prints_without_end_is_ended() {
    let config = KeyConfig { command: Some("yes".into()), ..KeyConfig::default() };
    let error = found(&KeySources::new(config, None), &[]).await.unwrap_err();
    assert_eq!(error, "the key command `yes` holds more than one line");
}
