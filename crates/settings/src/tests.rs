use hbh::{Config, PARAMETERS, Profile};

use super::{Section, Source};

fn read(text: &str, read: impl Fn(&Section<'_>) -> Result<(), super::Complaint>) -> String {
    let source = Source::new("a.toml", text.to_owned());
    let outcome = || {
        let document = source.parse()?;
        read(&document.root())?;
        document.finish()
    };
    match outcome() {
        Ok(()) => "all right".to_owned(),
        Err(complaint) => complaint.to_string(),
    }
}

/// A file with HBH's parameters and a list of links.
fn hbh(text: &str) -> String {
    read(text, |root| {
        let mut config = Config::new(Profile::Default);
        if let Some(Some(section)) = root.needed("hbh")?.switch()? {
            section.apply(&PARAMETERS, &mut config)?;
        }
        for link in root.sections("link")? {
            link.needed("between")?.pair()?;
        }
        Ok(())
    })
}

#[test]
fn all_that_is_asked_for_may_stand_there() {
    assert_eq!(hbh("hbh = true"), "all right");
    assert_eq!(hbh("[hbh]\nretries = 3\nrto.gain = 0.5"), "all right");
    assert_eq!(hbh("hbh = true\n[[link]]\nbetween = [\"a\", \"b\"]"), "all right");
}

#[test]
fn a_complaint_has_file_line_key_and_what_is_allowed() {
    for (text, expected) in [
        ("[hbh]\nretries = 256", "a.toml:2: hbh.retries: 256 is not allowed: 0 to 255"),
        ("hbh = 1", "a.toml:1: hbh: 1 is not allowed: true, false, or a table of parameters"),
        ("hbh = true\nhbh = false", "a.toml:2: duplicate key"),
        ("", "a.toml: hbh is missing"),
        ("\nhbh = true\nlink = 5", "a.toml:3: link: 5 is not allowed: a list, in brackets"),
        ("hbh = true\n[[link]]\n", "a.toml:2: link: between is missing"),
        (
            "hbh = true\n[[link]]\nbetween = [\"a\"]",
            "a.toml:3: link.between: [\"a\"] is not allowed: a list of two",
        ),
        (
            "hbh = { rto = { minimum = \"2s\",\n maximum = \"1s\" } }",
            "a.toml:1: hbh.rto.minimum: rto.minimum = \"2s\", rto.maximum = \"1s\" are not allowed \
             together: rto.minimum is at most rto.maximum",
        ),
    ] {
        assert_eq!(hbh(text), expected);
    }
}

#[test]
fn what_was_meant_is_said() {
    for (text, expected) in [
        (
            "[hbh]\nretires = 2",
            "a.toml:2: hbh.retires: there is no such key; retries is probably meant",
        ),
        ("[hbh]\nack_delay = \"1s\"", "a.toml:2: hbh.ack_delay: is called ack-delay"),
        ("[hhb]", "a.toml:1: hhb: there is no such key; hbh is probably meant"),
        (
            "hbh = true\n[[link]]\nbetwen = []",
            "a.toml:3: link.betwen: there is no such key; between is probably meant",
        ),
        (
            "hbh = true\nsomething = 5",
            "a.toml:2: something: there is no such key; allowed are hbh, link",
        ),
    ] {
        assert_eq!(hbh(text), expected);
    }
}

#[test]
fn a_key_with_a_dot_is_one_key() {
    let section = "[node.\"a.1\"]\nspeed = 3\nsped = 4";
    let names = std::cell::RefCell::new(Vec::new());

    let said = read(section, |root| {
        for entry in root.needed("node")?.section()?.entries() {
            names.borrow_mut().push(entry.name().to_owned());
            entry.section()?.get("speed")?;
        }
        Ok(())
    });

    assert_eq!(names.take(), ["a.1"]);
    assert_eq!(said, "a.toml:3: node.\"a.1\".sped: there is no such key; speed is probably meant");
}

#[test]
fn a_text_that_is_no_toml_is_told_in_a_few_lines() {
    let source = Source::new("a.toml", "What we know of it.\n".repeat(300));

    let said = source.parse_whole().unwrap_err().to_string();

    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert!(lines[0].starts_with("a.toml:1: "), "{said}");
    assert_eq!(lines[4], "a.toml: and more: these are the first 4 that were found");
}

#[test]
fn a_very_long_key_or_value_is_not_repeated() {
    let long = "x".repeat(100_000);
    for text in
        [format!("hbh = \"{long}\""), format!("[hbh]\n{long} = 1"), format!("hbh = true\n[{long}]")]
    {
        let said = hbh(&text);

        assert!(said.len() < 5_000 && said.contains(" octets are left out] "), "{said}");
    }
}

#[test]
fn what_has_moved_is_said() {
    let source = Source::new("a.toml", "log = 5\n[hello]\ninterval = 3".to_owned());
    let document = source.parse().unwrap();

    let moved = [("interfaces", "hbh.interfaces"), ("hello.interval", "hbh.hello.interval")];
    let complaint = document.root().refuse_moved(&moved).unwrap_err();

    assert_eq!(
        complaint.to_string(),
        "a.toml:3: hello.interval: is called hbh.hello.interval: write interval = 3 in the section \
         [hbh.hello]"
    );
}

#[test]
fn a_table_that_is_switched_off_is_not_read() {
    let text = "off = { whatever = 5 }";

    let outcome = read(text, |root| root.get("off").map(|_| ()));

    assert_eq!(outcome, "all right");
}

#[test]
fn control_characters_of_a_file_do_not_reach_the_terminal() {
    let complaint = hbh("hbh = true\n\"\\u001b[2J\" = 5\n");

    assert!(complaint.contains(r"\u001b[2J"), "{complaint}");
    assert!(!complaint.contains(char::is_control));
}
