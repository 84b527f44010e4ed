//! Options of programs that can run others. A rule that allows such a program covers it only with
//! options that are known to run nothing, or that the rule itself names. Everything else asks: a
//! list of dangerous options would never be complete, and long options may be abbreviated.

/// Each program with the options that do not make it run another one.
const HARMLESS: &[(&str, &str)] = &[
    ("sed", "-n -i -e -E -r -s -u -z --quiet --silent --regexp-extended --separate --null-data --posix --sandbox"),
    ("gsed", "-n -i -e -E -r -s -u -z --quiet --silent --regexp-extended --separate --null-data --posix --sandbox"),
    ("awk", AWK),
    ("gawk", AWK),
    ("mawk", AWK),
    ("nawk", AWK),
    ("original-awk", AWK),
    ("ssh", "-4 -6 -a -C -i -l -n -p -q -T -t -v -x"),
    ("scp", "-3 -4 -6 -B -C -P -i -l -p -q -r -v"),
    ("sftp", "-4 -6 -a -C -P -i -l -p -q -r -v"),
    ("rsync", RSYNC),
    ("tar", TAR),
    ("gtar", TAR),
    ("bsdtar", TAR),
    ("zip", "-0 -1 -9 -j -q -r -u -v -x -y --exclude --quiet --recurse-paths"),
    ("wget", "-O -P -S -c -q -nv --continue --no-verbose --output-document --quiet --spider --timeout --tries"),
    ("sort", SORT),
    ("split", "-a -b -d -l -n --bytes --lines --number --numeric-suffixes --suffix-length"),
    ("find", FIND),
    ("fd", FD),
    ("fdfind", FD),
    ("rg", RG),
    ("make", MAKE),
    ("gmake", MAKE),
    ("bmake", MAKE),
    ("less", "-E -F -N -R -S -X -i -n"),
    ("more", ""),
    ("most", ""),
    ("man", "-a -f -k"),
    ("vim", "-R -n"),
    ("vi", "-R -n"),
    ("nvim", "-R -n"),
    ("gvim", ""),
    ("view", ""),
    ("ex", ""),
    ("ed", ""),
    ("emacs", "-nw -q"),
    ("emacsclient", ""),
    ("gdb", ""),
    ("sh", SHELL),
    ("bash", SHELL),
    ("rbash", SHELL),
    ("dash", SHELL),
    ("zsh", "-e -u -x"),
    ("ksh", "-e -u -x"),
    ("fish", ""),
    ("su", ""),
    ("script", "-a -f -q"),
    ("newgrp", ""),
    ("sg", ""),
    ("env", "-0 -i -u --ignore-environment --unset"),
    ("sudo", "-E -H -n -u"),
    ("doas", "-n -u"),
    ("runuser", "-u"),
    ("timeout", "-k -s -v --foreground --kill-after --preserve-status --signal"),
    ("nice", "-n --adjustment"),
    ("ionice", "-c -n -t"),
    ("stdbuf", "-e -i -o -L"),
    ("setsid", "-f -w --wait"),
    ("time", "-p -v"),
    ("xargs", "-0 -I -L -P -d -n -r -t --max-args --max-procs --no-run-if-empty --null"),
    ("nohup", ""),
    ("command", "-p -v -V"),
    ("exec", ""),
    ("flock", "-n -s -w -x"),
    ("watch", "-d -n -t"),
    ("parallel", "-j -k"),
    ("strace", "-c -e -f -q -t -v -y"),
    ("ltrace", "-c -e -f"),
    ("perf", ""),
    ("valgrind", "-q -v --leak-check --error-exitcode"),
    ("tmux", ""),
    ("screen", ""),
    ("sqlite3", "-batch -csv -header -json -readonly"),
    ("psql", "-d -h -p -t -A -U"),
    ("mysql", "-D -P -h -u"),
    ("socat", ""),
    ("nc", "-4 -6 -l -n -p -u -v -w -z"),
    ("ncat", "-4 -6 -l -n -p -u -v -w -z"),
    ("dc", ""),
    ("bwrap", ""),
    ("unshare", ""),
    ("nsenter", ""),
    ("chroot", ""),
    ("systemd-run", "--user --wait --quiet"),
];

/// Each group of git subcommands with the options that do not make them run a program that the
/// option names.
const GIT: &[(&str, &str)] = &[
    (
        "add blame diff diff-tree log ls-files ls-tree merge-base name-rev rev-list rev-parse shortlog show status",
        READING,
    ),
    ("describe reflog cat-file", READING),
    (
        "grep",
        "-E -F -G -P -c -e -h -i -l -n -q -v -w --cached --count --files-with-matches --ignore-case --line-number",
    ),
    ("branch tag stash worktree remote", CHANGING),
    ("rm mv restore checkout switch reset clean", CHANGING),
    ("commit merge cherry-pick revert", CHANGING),
    ("fetch pull push", CHANGING),
    ("clone init", "-b -q -v --bare --branch --depth --mirror --no-tags --quiet --single-branch --verbose"),
    ("rebase", "-q -v --abort --autostash --continue --no-autosquash --onto --quiet --skip"),
    ("config", "--get --global --list --local -l"),
    ("apply", "-3 -R -p -v --cached --check --index --reverse --stat --whitespace"),
    ("archive", "-o --format --output --prefix"),
    ("submodule", "-q --init --recursive"),
    ("bisect", ""),
];

/// Options of git itself.
const GIT_ITSELF: &str = "-C -P --no-optional-locks --no-pager --version";

const READING: &str = "-A -C -E -F -G -L -M -N -S -U -a -b -c -d -e -f -g -i -l -m -n -o -p -s -t -u -v -w -z \
    --abbrev --abbrev-commit --abbrev-ref --after --all --always --author --before --branches --cached --color \
    --date --decorate --deleted --diff-filter --dirty --exclude-standard --exit-code --first-parent --follow --force \
    --format --graph --grep --git-dir --ignored --intent-to-add --is-inside-work-tree --long --max-count --merges \
    --minimal --modified --name-only --name-status --no-color --no-ext-diff --no-merges --no-patch --no-renames \
    --numstat --oneline --others --patch --porcelain --pretty --quiet --reverse --short --shortstat --show-toplevel \
    --since --staged --stage --stat --summary --tags --unified --until --untracked-files --update --verbose --verify \
    --word-diff";

/// Excludes `-S` and `--gpg-sign`, which run gpg, and `--upload-pack`, `--receive-pack` and
/// `--exec`.
const CHANGING: &str = "-A -B -D -F -M -N -a -b -c -d -f -i -l -m -n -p -q -r -s -t -u -v -x --abort --all --allow-empty \
    --amend --annotate --author --autostash --branch --cached --continue --date --delete --depth --detach --dry-run \
    --ff --ff-only --file --follow-tags --force --force-with-lease --hard --include-untracked --index --keep-index \
    --list --merged --message --mixed --move --no-commit --no-edit --no-ff --no-merged --no-tags --no-verify \
    --orphan --ours --patch --porcelain --prune --quiet --rebase --recurse-submodules --remotes --set-upstream \
    --set-upstream-to --show-current --signoff --skip --soft --sort --source --squash --staged --tags --theirs \
    --track --unset-upstream --verbose --worktree";

/// Excludes `-f`, because an awk program in a file can run others.
const AWK: &str = "-F -v --assign --field-separator";
const SHELL: &str = "-e -u -x -v --norc --noprofile --posix";
const MAKE: &str = "-B -C -f -i -j -k -n -s -w --always-make --directory --dry-run --file --jobs --keep-going \
    --no-print-directory --silent";
const SORT: &str = "-T -V -b -c -d -f -g -h -i -k -m -M -n -o -r -R -s -t -u -z --field-separator --human-numeric-sort \
    --key --numeric-sort --output --reverse --unique --version-sort";
const TAR: &str = "-C -J -c -f -j -k -p -t -v -x -z --bzip2 --create --directory --exclude --extract --file --gzip \
    --list --strip-components --verbose --xz --zstd";
const RSYNC: &str = "-A -D -H -P -S -X -a -c -g -h -i -l -n -o -p -q -r -t -u -v -z --archive --checksum --compress \
    --delete --dry-run --exclude --human-readable --include --itemize-changes --links --partial --perms \
    --progress --recursive --stats --times --update --verbose";
const FIND: &str = "-H -L -P -a -amin -and -atime -cmin -ctime -delete -depth -empty -executable -follow -group -iname \
    -ipath -iregex -iwholename -links -ls -maxdepth -mindepth -mmin -mount -mtime -name -newer -not -o -or -path \
    -perm -print -print0 -printf -prune -quit -readable -regex -regextype -size -type -user -wholename -writable \
    -xdev";
const FD: &str = "-0 -E -H -I -L -a -d -e -g -i -p -s -t --absolute-path --case-sensitive --exclude --extension \
    --follow --full-path --glob --hidden --ignore-case --max-depth --no-ignore --type";
const RG: &str = "-A -B -C -F -H -I -L -N -P -S -T -U -c -e -g -h -i -l -m -n -o -q -s -t -u -v -w -x --after-context \
    --before-context --context --count --count-matches --files --files-with-matches --files-without-match \
    --fixed-strings --glob --heading --hidden --iglob --ignore-case --json --line-number --max-count \
    --max-depth --multiline --no-heading --no-ignore --no-line-number --only-matching --pcre2 --regexp \
    --smart-case --sort --stats --type --type-not --with-filename --word-regexp";

/// Returns whether every option of a program either runs nothing or is named in the rule. Programs
/// that run no others may have any option.
pub(super) fn are_harmless(name: &str, arguments: &[&str], is_in_rule: impl Fn(&str) -> bool) -> bool {
    if name == "git" {
        return are_harmless_for_git(arguments, is_in_rule);
    }
    let Some((_, known)) = HARMLESS.iter().find(|(program, _)| *program == name) else { return true };
    let is_tar = known == &TAR;
    // In a name with a colon, the part before it is a host, which `tar` reaches by running a
    // program.
    if is_tar && arguments.iter().any(|word| word.contains(':')) {
        return false;
    }
    arguments.iter().enumerate().all(|(index, word)| {
        // The first argument of `tar` may be option letters without a dash.
        if is_tar && index == 0 && !word.starts_with('-') {
            return is_in_rule(word) || is_known(&format!("-{word}"), known);
        }
        // The suffix of the backup copy.
        let is_suffix = name.ends_with("sed") && word.starts_with("-i.");
        !is_option(word) || is_suffix || is_in_rule(word) || is_known(word, known)
    })
}

fn are_harmless_for_git(arguments: &[&str], is_in_rule: impl Fn(&str) -> bool) -> bool {
    let mut rest = arguments.iter().copied();
    let subcommand = loop {
        match rest.next() {
            None => return true,
            Some("-C") => {
                rest.next();
            }
            Some(word) if is_option(word) => {
                if !is_in_rule(word) && !is_known(word, GIT_ITSELF) {
                    return false;
                }
            }
            Some(word) => break word,
        }
    };
    let known = GIT.iter().find(|(names, _)| names.split(' ').any(|name| name == subcommand)).map(|(_, known)| *known);
    if known.is_none() && !is_in_rule(subcommand) {
        return false;
    }
    rest.all(|word| !is_option(word) || is_in_rule(word) || known.is_some_and(|known| is_known(word, known)))
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with(['-', '+'])
}

/// Returns whether an option is listed: by its whole name, or as letters that are all listed,
/// possibly with a number or separators as a value.
fn is_known(option: &str, known: &str) -> bool {
    let is_listed = |option: &str| known.split_ascii_whitespace().any(|known| known == option);
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    let letters = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    (name.len() > 2 && is_listed(name))
        || letters.is_some_and(|letters| {
            letters
                .chars()
                .all(|letter| letter.is_ascii_digit() || ",.:=".contains(letter) || is_listed(&format!("-{letter}")))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str) -> bool {
        let words: Vec<&str> = command.split(' ').collect();
        are_harmless(words[0], &words[1..], |word| word == "--in-rule")
    }

    #[test]
    fn only_listed_options_are_harmless() {
        for command in [
            "sed -n 1p x",
            "sed -i.bak s/a/b/ x",
            "sed -ne p x",
            "git status -s",
            "git -C x log --oneline -20",
            "git push --force-with-lease origin x",
            "git commit -am x",
            "tar czf a.tgz b",
            "tar -xf a.tar",
            "ls --anything",
            "rsync -av a b",
            "env --in-rule ls",
            "make -j8 all",
            "sort -t, -k2 x",
            "timeout -k5 60 ls",
        ] {
            assert!(check(command), "{command}");
        }
        for command in [
            "sed -l 5 x",
            "sed --expr=x y",
            "sed -f x",
            "sftp -o x",
            "sftp -D x",
            "scp -o x",
            "ssh -F x",
            "env --split=x",
            "env -S x",
            "su --comm=x",
            "bash --rcfile rc -i",
            "wget --use-askpass=x u",
            "git fetch-pack --exec=x . HEAD",
            "git --git-dir=x status",
            "git fetch --upl=x",
            "tar --to-comm=x",
            "tar cf x:y z",
            "tar cIf x y",
            "git -c a=b log",
            "git clone -u x y",
            "find . -exec x",
            "git rebase -x y",
            "bash -c x",
            "git send-pack --receive-pack=x . HEAD",
        ] {
            assert!(!check(command), "{command}");
        }
    }
}
