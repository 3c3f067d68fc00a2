//! Declares counters: each one has its field, name, unit and help in one place.
//!
//! A core counts in a plain struct of `u64`. Drivers show what it counted under the declared names: as JSON, as metrics
//! and in the documentation.
//!
//! ```
//! use base::counter::{Counters as _, named};
//!
//! base::counters! {
//!     /// Counters of the example.
//!     #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
//!     pub struct Stats {
//!         /// Packets taken.
//!         pub packets_taken: counter(packets);
//!         /// Counters of what is sent; their names end in `_sent`.
//!         pub sent: struct Sent("", "_sent") {
//!             /// Hellos sent.
//!             pub hellos: counter(messages);
//!         }
//!         /// Packets that wait now.
//!         pub waiting as "packets_waiting": gauge(packets);
//!     }
//! }
//!
//! let stats = Stats { packets_taken: 2, sent: Sent { hellos: 3 }, waiting: 1 };
//! let shown = named(&stats).into_iter().map(|(counter, value)| (counter.name, value));
//! assert!(shown.eq([("packets_taken", 2), ("hellos_sent", 3), ("packets_waiting", 1)]));
//! ```

use std::time::Duration;

use serde::ser::{SerializeMap as _, Serializer};

#[doc(hidden)]
pub use serde;

/// The declaration of a counter.
#[derive(Debug, Eq, PartialEq)]
pub struct Counter {
    /// In `snake_case`, unique within its core.
    pub name: &'static str,
    /// Whether the number only grows.
    pub measure: Measure,
    /// The unit of the count, for example `packets`.
    pub unit: &'static str,
    /// One sentence for operators.
    pub help: &'static str,
}

/// How a number changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Measure {
    /// It only grows.
    Counter,
    /// A level, which grows and shrinks.
    Gauge,
}

impl Counter {
    /// A number that only grows.
    #[must_use]
    #[expect(clippy::self_named_constructors, reason = "declarations say `counter` or `gauge`")]
    pub const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, measure: Measure::Counter, unit, help }
    }

    /// A level.
    #[must_use]
    pub const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, measure: Measure::Gauge, unit, help }
    }
}

/// A struct of counters.
pub trait Counters {
    /// Shows each counter with its value, in the order of their declaration.
    fn visit(&self, see: &mut dyn FnMut(&'static Counter, u64));
}

impl<C: Counters> Counters for &C {
    fn visit(&self, see: &mut dyn FnMut(&'static Counter, u64)) {
        (*self).visit(see);
    }
}

/// A type for fields of counters.
pub trait Countable {
    /// The number shown.
    fn value(&self) -> u64;
}

impl Countable for u64 {
    fn value(&self) -> u64 {
        *self
    }
}

impl Countable for usize {
    fn value(&self) -> u64 {
        u64::try_from(*self).unwrap_or(u64::MAX)
    }
}

/// In milliseconds.
impl Countable for Duration {
    fn value(&self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }
}

/// All counters with their values, in the order of their declaration.
#[must_use]
pub fn named(counters: &impl Counters) -> Vec<(&'static Counter, u64)> {
    let mut all = Vec::new();
    counters.visit(&mut |counter, value| all.push((counter, value)));
    all
}

/// Writes each counter's name and value.
///
/// # Errors
/// When the serializer fails.
pub fn serialize<S: Serializer>(
    counters: &impl Counters,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let all = named(counters);
    let mut map = serializer.serialize_map(Some(all.len()))?;
    for (counter, value) in all {
        map.serialize_entry(counter.name, &value)?;
    }
    map.end()
}

/// How many octets the name of an enum's variant has in `snake_case`.
#[doc(hidden)]
#[must_use]
pub const fn snake_len(camel: &str) -> usize {
    let (camel, mut at, mut len) = (camel.as_bytes(), 0, 0);
    while at < camel.len() {
        len += if at > 0 && camel[at].is_ascii_uppercase() { 2 } else { 1 };
        at += 1;
    }
    len
}

/// The name of an enum's variant in `snake_case`.
///
/// # Panics
/// When the length is not the name's, which stops the compilation of a constant.
#[doc(hidden)]
#[must_use]
pub const fn snake<const N: usize>(camel: &str) -> [u8; N] {
    let (camel, mut snake, mut at, mut to) = (camel.as_bytes(), [0; N], 0, 0);
    while at < camel.len() {
        if at > 0 && camel[at].is_ascii_uppercase() {
            snake[to] = b'_';
            to += 1;
        }
        snake[to] = camel[at].to_ascii_lowercase();
        to += 1;
        at += 1;
    }
    assert!(to == N, "the length of the name");
    snake
}

/// Declares a struct of counters, see [`counter`](crate::counter).
///
/// The doc comment of a field is the counter's help. The name is the field's. The forms of a field:
///
/// ```text
/// pub x: counter(packets);                   a u64 that only grows, and its unit
/// pub x: gauge(packets);                     a level
/// pub x as "name": counter(packets);         a name that differs from the field's
/// pub x: counter(ms) in Duration;            a type that is Countable
/// pub x: struct Group {..}                   a struct of its own
/// pub x: struct Group("before_", "_after") {..}  the same; names of its fields have a prefix and a suffix
/// pub x: all module::Stats;                  counters declared elsewhere
/// pub x: Type;                               no counter
/// ```
///
/// Where code chooses a counter at run time, `pub enum Counter in Stats {..}` declares variants instead of fields:
/// `/// Help.` and `HellosSent: counter(messages);`. `Stats` has `count`, `add` and `of`.
#[macro_export]
macro_rules! counters {
    (
        $(#[doc = $doc:literal])+
        #[derive($($derive:ident),+)]
        $vis:vis struct $name:ident $(($before:literal, $after:literal))? { $($body:tt)* }
    ) => {
        $crate::counters! {
            @next [[$(#[doc = $doc])+] [$($derive),+] [$vis] $name] [$($before, $after)?] {} {} {} $($body)*
        }
    };
    (
        $(#[doc = $doc:literal])+
        $vis:vis enum $counter:ident in $stats:ident {
            $($(#[doc = $help:literal])+ $variant:ident: $measure:ident($unit:ident);)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        $vis enum $counter {
            $($(#[doc = $help])+ $variant,)+
        }

        impl $counter {
            const ALL: &'static [$crate::counter::Counter] = &[$({
                const LEN: usize = $crate::counter::snake_len(stringify!($variant));
                const SNAKE: [u8; LEN] = $crate::counter::snake(stringify!($variant));
                const NAME: &str = match core::str::from_utf8(&SNAKE) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                };
                $crate::counter::Counter::$measure(NAME, stringify!($unit), concat!($($help),+).trim_ascii())
            }),+];
        }

        /// What was counted since the core started.
        #[derive(Clone, Debug, Eq, PartialEq)]
        $vis struct $stats([u64; $counter::ALL.len()]);

        impl Default for $stats {
            fn default() -> Self {
                Self([0; $counter::ALL.len()])
            }
        }

        impl $stats {
            /// Counts one more.
            pub fn count(&mut self, counter: $counter) {
                self.add(counter, 1);
            }

            /// Counts so many more.
            pub fn add(&mut self, counter: $counter, number: u64) {
                self.0[counter as usize] += number;
            }

            /// How often something happened.
            #[must_use]
            $vis fn of(&self, counter: $counter) -> u64 {
                self.0[counter as usize]
            }
        }

        impl $crate::counter::Counters for $stats {
            fn visit(&self, see: &mut dyn FnMut(&'static $crate::counter::Counter, u64)) {
                for (counter, value) in $counter::ALL.iter().zip(self.0) {
                    see(counter, value);
                }
            }
        }
    };

    // Counters declared elsewhere.
    (
        @next $head:tt $affixes:tt {$($fields:tt)*} {$($visits:tt)*} $groups:tt
        $(#[doc = $doc:literal])+
        $vis:vis $field:ident: all $type:ty;
        $($rest:tt)*
    ) => {
        $crate::counters! {
            @next $head $affixes
            {$($fields)* $(#[doc = $doc])+ $vis $field: $type,}
            {$($visits)* [all $field]}
            $groups
            $($rest)*
        }
    };
    // A struct of its own.
    (
        @next [$docs:tt [$($derive:ident),+] $seen:tt $name:ident] $affixes:tt
        {$($fields:tt)*} {$($visits:tt)*} {$($groups:tt)*}
        $(#[doc = $doc:literal])+
        $vis:vis $field:ident: struct $group:ident $(($before:literal, $after:literal))? { $($body:tt)* }
        $($rest:tt)*
    ) => {
        $crate::counters! {
            @next [$docs [$($derive),+] $seen $name] $affixes
            {$($fields)* $(#[doc = $doc])+ $vis $field: $group,}
            {$($visits)* [all $field]}
            {
                $($groups)*
                $crate::counters! {
                    $(#[doc = $doc])+
                    #[derive($($derive),+)]
                    $vis struct $group $(($before, $after))? { $($body)* }
                }
            }
            $($rest)*
        }
    };
    // A counter.
    (
        @next $head:tt $affixes:tt {$($fields:tt)*} {$($visits:tt)*} $groups:tt
        $(#[doc = $doc:literal])+
        $vis:vis $field:ident $(as $called:literal)?: $measure:ident($unit:ident) $(in $type:ty)?;
        $($rest:tt)*
    ) => {
        $crate::counters! {
            @next $head $affixes
            {$($fields)* $(#[doc = $doc])+ $vis $field: $crate::counters!(@type $($type)?),}
            {$($visits)* [$measure $field [$($called)?] $affixes $unit [$($doc)+]]}
            $groups
            $($rest)*
        }
    };
    // No counter.
    (
        @next $head:tt $affixes:tt {$($fields:tt)*} $visits:tt $groups:tt
        $(#[doc = $doc:literal])+
        $vis:vis $field:ident: $type:ty;
        $($rest:tt)*
    ) => {
        $crate::counters! {
            @next $head $affixes {$($fields)* $(#[doc = $doc])+ $vis $field: $type,} $visits $groups $($rest)*
        }
    };
    (
        @next [[$(#[doc = $doc:literal])+] [$($derive:ident),+] [$vis:vis] $name:ident] $affixes:tt
        {$($fields:tt)*} {$($visit:tt)*} {$($groups:tt)*}
    ) => {
        $(#[doc = $doc])+
        #[derive($($derive),+)]
        $vis struct $name {$($fields)*}

        impl $crate::counter::Counters for $name {
            fn visit(&self, see: &mut dyn FnMut(&'static $crate::counter::Counter, u64)) {
                $($crate::counters!(@visit self see $visit);)*
            }
        }

        impl $crate::counter::serde::Serialize for $name {
            fn serialize<S: $crate::counter::serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                $crate::counter::serialize(self, serializer)
            }
        }

        $($groups)*
    };

    (@type) => { u64 };
    (@type $type:ty) => { $type };

    (@visit $this:ident $see:ident [all $field:ident]) => {
        $crate::counter::Counters::visit(&$this.$field, $see)
    };
    (
        @visit $this:ident $see:ident
        [$measure:ident $field:ident $called:tt $affixes:tt $unit:ident [$($doc:literal)+]]
    ) => {{
        static COUNTER: $crate::counter::Counter = $crate::counter::Counter::$measure(
            $crate::counters!(@name $field $called $affixes),
            stringify!($unit),
            concat!($($doc),+).trim_ascii(),
        );
        $see(&COUNTER, $crate::counter::Countable::value(&$this.$field));
    }};
    (@name $field:ident [$called:literal] $affixes:tt) => { $called };
    (@name $field:ident [] []) => { stringify!($field) };
    (@name $field:ident [] [$before:literal, $after:literal]) => { concat!($before, stringify!($field), $after) };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::counters! {
        /// Counters of the example.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        struct Stats {
            /// Packets
            /// taken.
            taken as "packets_taken": counter(packets);
            /// Dropped.
            dropped: struct Dropped("dropped_", "_here") {
                /// Not readable.
                malformed: counter(packets);
                /// Dropped: no room.
                full as "full": counter(packets);
            }
            /// How long.
            keyed as "keyed_ms": gauge(ms) in Duration;
            /// No counter.
            note: &'static str;
        }
    }

    crate::counters! {
        /// Something that happened.
        enum Event in Events {
            /// Hellos sent.
            HellosSent: counter(messages);
            /// Routes.
            Routes: gauge(routes);
        }
    }

    #[test]
    fn a_declaration_makes_field_name_and_help() {
        let dropped = Dropped { malformed: 2, full: 3 };
        let stats = Stats { taken: 1, dropped, keyed: Duration::from_secs(4), note: "" };

        let shown = named(&stats);

        assert_eq!(
            shown,
            [
                (&Counter::counter("packets_taken", "packets", "Packets taken."), 1),
                (&Counter::counter("dropped_malformed_here", "packets", "Not readable."), 2),
                (&Counter::counter("full", "packets", "Dropped: no room."), 3),
                (&Counter::gauge("keyed_ms", "ms", "How long."), 4_000),
            ]
        );
        assert_eq!(stats.note, "");
        assert_eq!(named(&&stats), shown);
        let values = [Countable::value(&7_usize), Countable::value(&Duration::from_micros(2_900))];
        assert_eq!(values, [7, 2]);
    }

    #[test]
    fn variants_are_counters_too() {
        let mut events = Events::default();
        events.count(Event::HellosSent);
        events.add(Event::Routes, 5);

        let shown: Vec<_> =
            named(&events).into_iter().map(|(it, value)| (it.name, value)).collect();

        assert_eq!(shown, [("hellos_sent", 1), ("routes", 5)]);
        assert_eq!(events.of(Event::Routes), 5);
    }
}
