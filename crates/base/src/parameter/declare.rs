//! The macro that declares parameters, each with its field, default, range, unit and meaning in one place.

/// Declares the configuration of a protocol and the [table](crate::parameter::Table) of its parameters.
///
/// A parameter is one declaration: its doc comment is the meaning that users read, `allowed` is the
/// [kind](crate::parameter::Kind) with range and unit, and the rest is the field with its type and default. The name is
/// the field's in kebab-case. Anything else that developers should know about a field is an ordinary comment.
///
/// ```
/// use base::parameter::Kind;
///
/// base::parameters! {
///     /// The parameters of the example.
///     pub static PARAMETERS = "example";
///
///     /// The settings of the example.
///     #[derive(Clone, Debug, PartialEq)]
///     pub struct Config from default() {
///         /// How often a hop sends a packet again before it gives up.
///         #[allowed(Kind::count(0..=255))]
///         pub retries: u8 = 15;
///
///         /// The weight of a new sample.
///         #[allowed(Kind::share(0.001..=1.0))]
///         pub gain: f64 = 0.125;
///     }
/// }
///
/// assert_eq!(PARAMETERS.parameters[0].name, "retries");
/// assert_eq!(PARAMETERS.parameters[0].meaning, "How often a hop sends a packet again before it gives up.");
/// assert_eq!(Config::default().retries, 15);
/// ```
///
/// A struct, its fields and rules:
///
/// ```text
/// struct Config from default() {..}              implements Default, for its groups too
/// struct Config from new(profile: Profile) {..}  declares Config::new; the first argument may choose defaults
/// struct Config {..}                             is made elsewhere, so no field has a default
/// pub x: u8 = 15, Paper: 4;                      15, but 4 if the first argument is Profile::Paper
/// pub x as "name": u8 = 15;                      a name that differs from the field's
/// pub x: u8 = 15;             without `allowed`  no parameter
/// pub rto: struct Rto {..}                       a struct of its own; its names begin with `rto.`
/// pub limits: flat struct Limits {..}            the same, but names do not show it
///                                                (a group may have a derive of its own)
/// "name" at path.of.field;                       a parameter kept in a field declared elsewhere
/// use module::ROW;                               a row declared elsewhere
/// rules [..]                                     behind the struct: conditions between several parameters
/// ```
///
/// Attributes, in this order; each but the first is optional:
///
/// ```text
/// #[allowed(Kind::..)]                           a constant expression
/// #[only("access = \"jitter\"", |it| ..)]        the condition under which the parameter is of use
/// #[get(|it| ..)]                                how it is read, if not as its type is
/// #[set(|it, to| ..)]                            how it is set, if not as its type is
/// ```
///
/// A table over a struct declared elsewhere is `pub static TABLE: Config = "name" { .. }` with `"name" at ..` alone.
/// Types of fields implement [`Settable`](crate::parameter::Settable).
#[macro_export]
macro_rules! parameters {
    (
        $(#[$about:meta])*
        $seen:vis static $table:ident = $name:literal;

        $(#[doc = $doc:literal])+
        #[derive($($derive:ident),+)]
        $vis:vis struct $config:ident $(from $new:ident $args:tt)? { $($body:tt)* }

        $(rules $rules:tt)?
    ) => {
        $crate::parameters! {
            @next
            [struct
                [$(#[$about])* $seen static $table = $name] [$(#[doc = $doc])+] [$($derive),+] [$vis $config]
                [$($new $args)?] [$($rules)?]]
            $config [$($args)?] [$($derive),+] [] [] {} {} {} {} []
            $($body)*
        }
    };
    (
        $(#[$about:meta])*
        $seen:vis static $table:ident: $config:ident = $name:literal { $($body:tt)* }

        $(rules $rules:tt)?
    ) => {
        $crate::parameters! {
            @next
            [table [$(#[$about])* $seen static $table = $name] $config [$($rules)?]]
            $config [] [] [] [] {} {} {} {} []
            $($body)*
        }
    };

    // A row declared elsewhere.
    (
        @next $head:tt $config:ident $args:tt $derive:tt $path:tt $prefix:tt
        $fields:tt $defaults:tt {$($rows:tt)*} $structs:tt $stack:tt
        use $row:path;
        $($rest:tt)*
    ) => {
        $crate::parameters! {
            @next $head $config $args $derive $path $prefix
            $fields $defaults {$($rows)* [use $row]} $structs $stack
            $($rest)*
        }
    };
    // A parameter in a field declared elsewhere.
    (
        @next $head:tt $config:ident $args:tt $derive:tt [$($path:tt)*] $prefix:tt
        $fields:tt $defaults:tt {$($rows:tt)*} $structs:tt $stack:tt
        $(#[doc = $doc:literal])+
        #[allowed($kind:expr)]
        $(#[only($text:expr, $holds:expr)])?
        $(#[get($get:expr)])?
        $(#[set($set:expr)])?
        $called:literal $(at $at:ident $(. $more:tt)*)?;
        $($rest:tt)*
    ) => {
        $crate::parameters! {
            @next $head $config $args $derive [$($path)*] $prefix
            $fields $defaults
            {
                $($rows)*
                [[$($path)* $($at $(. $more)*)?] [$called] [$($doc)+] $kind, [$($text, $holds)?] [$($get)?] [$($set)?]]
            }
            $structs $stack
            $($rest)*
        }
    };
    // A parameter and its field.
    (
        @next $head:tt $config:ident $args:tt $derive:tt [$($path:tt)*] [$($prefix:tt)*]
        {$($fields:tt)*} {$($defaults:tt)*} {$($rows:tt)*} $structs:tt $stack:tt
        $(#[doc = $doc:literal])+
        #[allowed($kind:expr)]
        $(#[only($text:expr, $holds:expr)])?
        $(#[get($get:expr)])?
        $(#[set($set:expr)])?
        $vis:vis $field:ident $(as $called:literal)?: $type:ty
            $(= $default:expr $(, $special:ident: $value:expr)*)?;
        $($rest:tt)*
    ) => {
        $crate::parameters! {
            @next $head $config $args $derive [$($path)*] [$($prefix)*]
            {$($fields)* $(#[doc = $doc])+ $vis $field: $type,}
            {$($defaults)* $field: $crate::parameters!(@default $args $($default $(, $special: $value)*)?),}
            {
                $($rows)*
                [
                    [$($path)* $field] [$($called,)? $($prefix)* stringify!($field)] [$($doc)+] $kind,
                    [$($text, $holds)?] [$($get)?] [$($set)?]
                ]
            }
            $structs $stack
            $($rest)*
        }
    };
    // A group with its name in the names of its parameters.
    (
        @next $head:tt $config:ident $args:tt $derive:tt $path:tt $prefix:tt
        $fields:tt $defaults:tt $rows:tt $structs:tt $stack:tt
        $(#[doc = $doc:literal])+
        $(#[derive($($own:ident),+)])?
        $vis:vis $field:ident: struct $group:ident { $($body:tt)* }
        $($rest:tt)*
    ) => {
        $crate::parameters! {
            @next $head $config $args $derive [$field .] [stringify!($field), ".",]
            {} {} $rows $structs
            [
                $path $prefix $fields $defaults
                [$(#[doc = $doc])+] [$($($own),+)?] [$vis] $field $group {$($rest)*} $stack
            ]
            $($body)*
        }
    };
    // A group whose names do not.
    (
        @next $head:tt $config:ident $args:tt $derive:tt $path:tt $prefix:tt
        $fields:tt $defaults:tt $rows:tt $structs:tt $stack:tt
        $(#[doc = $doc:literal])+
        $(#[derive($($own:ident),+)])?
        $vis:vis $field:ident: flat struct $group:ident { $($body:tt)* }
        $($rest:tt)*
    ) => {
        $crate::parameters! {
            @next $head $config $args $derive [$field .] []
            {} {} $rows $structs
            [
                $path $prefix $fields $defaults
                [$(#[doc = $doc])+] [$($($own),+)?] [$vis] $field $group {$($rest)*} $stack
            ]
            $($body)*
        }
    };
    // A field that is no parameter.
    (
        @next $head:tt $config:ident $args:tt $derive:tt $path:tt $prefix:tt
        {$($fields:tt)*} {$($defaults:tt)*} $rows:tt $structs:tt $stack:tt
        $(#[doc = $doc:literal])+
        $vis:vis $field:ident: $type:ty $(= $default:expr $(, $special:ident: $value:expr)*)?;
        $($rest:tt)*
    ) => {
        $crate::parameters! {
            @next $head $config $args $derive $path $prefix
            {$($fields)* $(#[doc = $doc])+ $vis $field: $type,}
            {$($defaults)* $field: $crate::parameters!(@default $args $($default $(, $special: $value)*)?),}
            $rows $structs $stack
            $($rest)*
        }
    };
    // The end of a group without a derive of its own: the group derives the same as the whole.
    (
        @next $head:tt $config:ident $args:tt $derive:tt $inner:tt $dotted:tt
        $inner_fields:tt $inner_defaults:tt $rows:tt $structs:tt
        [$path:tt $prefix:tt $fields:tt $defaults:tt $docs:tt [] $($outer:tt)+]
    ) => {
        $crate::parameters! {
            @next $head $config $args $derive $inner $dotted
            $inner_fields $inner_defaults $rows $structs
            [$path $prefix $fields $defaults $docs $derive $($outer)+]
        }
    };
    (
        @next $head:tt $config:ident $args:tt $derive:tt $inner:tt $dotted:tt
        {$($inner_fields:tt)*} $inner_defaults:tt $rows:tt {$($structs:tt)*}
        [
            $path:tt $prefix:tt {$($fields:tt)*} {$($defaults:tt)*}
            [$(#[doc = $doc:literal])+] [$($own:ident),+] [$vis:vis] $field:ident $group:ident {$($rest:tt)*} $stack:tt
        ]
    ) => {
        $crate::parameters! {
            @next $head $config $args $derive $path $prefix
            {$($fields)* $(#[doc = $doc])+ $vis $field: $group,}
            {$($defaults)* $field: $group $inner_defaults,}
            $rows
            {
                $($structs)*
                $(#[doc = $doc])+
                #[derive($($own),+)]
                $vis struct $group {$($inner_fields)*}

                $crate::parameters!(@group $group $args $inner_defaults);
            }
            $stack
            $($rest)*
        }
    };
    // The end of a struct.
    (
        @next
        [struct
            $about:tt [$(#[doc = $doc:literal])+] [$($derive:ident),+] [$vis:vis $config:ident]
            $new:tt $rules:tt]
        $same:ident $args:tt $derives:tt [] []
        {$($fields:tt)*} $defaults:tt $rows:tt {$($structs:tt)*} []
    ) => {
        $(#[doc = $doc])+
        #[derive($($derive),+)]
        $vis struct $config {$($fields)*}

        $($structs)*

        $crate::parameters!(@new $config $vis $new $defaults);
        $crate::parameters!(@table $about $config $rows $rules);
    };
    // The end of a table over a struct declared elsewhere.
    (
        @next [table $about:tt $config:ident $rules:tt]
        $same:ident [] [] [] [] {} {} $rows:tt {} []
    ) => {
        $crate::parameters!(@table $about $config $rows $rules);
    };

    (@default $args:tt) => { compile_error!("this field needs a default") };
    (@default $args:tt $default:expr) => { $default };
    (
        @default [($arg:ident: $type:ident $($more:tt)*)]
        $default:expr, $($special:ident: $value:expr),+
    ) => {
        match $arg { $($type::$special => $value,)+ _ => $default }
    };

    (@group $group:ident [()] {$($defaults:tt)*}) => {
        impl Default for $group {
            fn default() -> Self {
                Self {$($defaults)*}
            }
        }
    };
    (@group $group:ident $args:tt $defaults:tt) => {};

    (@new $config:ident $vis:vis [] $defaults:tt) => {};
    (@new $config:ident $vis:vis [default ()] {$($defaults:tt)*}) => {
        impl Default for $config {
            fn default() -> Self {
                Self {$($defaults)*}
            }
        }
    };
    (@new $config:ident $vis:vis [$new:ident ($($args:tt)*)] {$($defaults:tt)*}) => {
        impl $config {
            /// Creates the configuration with its defaults.
            #[must_use]
            $vis fn $new($($args)*) -> Self {
                Self {$($defaults)*}
            }
        }
    };

    (
        @table [$(#[$about:meta])* $seen:vis static $table:ident = $name:literal] $config:ident
        {$($row:tt)*} [$($rules:tt)?]
    ) => {
        $(#[$about])*
        $seen static $table: $crate::parameter::Table<$config> = $crate::parameter::Table {
            name: $name,
            parameters: &[$($crate::parameters!(@row $config $row)),*],
            rules: &$crate::parameters!(@rules $($rules)?),
        };
    };
    (@rules) => { [] };
    (@rules $rules:tt) => { $rules };

    (@row $config:ident [use $row:path]) => { $row };
    (
        @row $config:ident
        [$path:tt $called:tt [$($doc:literal)+] $kind:expr, [$($text:expr, $holds:expr)?] $get:tt $set:tt]
    ) => {{
        // Another constant here would shadow names in `$kind` chosen by the caller.
        const KIND: $crate::parameter::Kind = $kind;
        let row = $crate::parameter::Parameter::<$config>::new(
            $crate::parameters!(@name $called),
            KIND,
            concat!($($doc),+).trim_ascii(),
            $crate::parameters!(@get $config KIND $path $get),
            $crate::parameters!(@set $config $path $set),
        );
        $(let row = row.only_with($text, $holds);)?
        row
    }};
    (@name [$called:literal $($field:tt)*]) => { $called };
    (@name [$($part:tt)+]) => {{
        const SNAKE: &str = concat!($($part)+);
        const KEBAB: [u8; SNAKE.len()] = $crate::parameter::kebab(SNAKE);
        match core::str::from_utf8(&KEBAB) {
            Ok(name) => name,
            Err(_) => unreachable!(),
        }
    }};
    (@get $config:ident $kind:ident $path:tt [$get:expr]) => { $get };
    (@get $config:ident $kind:ident [$($path:tt)+] []) => {
        |it: &$config| $crate::parameter::Settable::to_value(&it.$($path)+, &$kind)
    };
    (@set $config:ident $path:tt [$set:expr]) => { $set };
    (@set $config:ident [$($path:tt)+] []) => {
        |it: &mut $config, to: $crate::parameter::Value| {
            if let Some(to) = $crate::parameter::Settable::from_value(&to) {
                it.$($path)+ = to;
            }
        }
    };
}
