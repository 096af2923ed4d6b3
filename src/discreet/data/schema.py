"""A schema: what is public about a table before anyone has looked at it.

Bounds, categories and fill values come from the codebook, the form that people filled in, or common knowledge; never
from the data. From them the `Encoder` builds rows of bounded norm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import yaml

from discreet.data.columns import Boolean, Categorical, Column, Ignore, Numeric, Person
from discreet.errors import InvalidInput
from discreet.text import checked_text, read_bounded, shortened

__all__ = ["Schema", "schema_missing", "schema_template"]

_MOST_CHARACTERS = 1 << 24
_MOST_NESTED = 8
"""A schema is a mapping of mappings of lists."""
_CROSSES = "crosses"
"""The word under which a file lists crosses, beside the columns."""
_KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Numeric, Categorical, Boolean, Ignore, Person)}


class Schema(Mapping[str, Column]):
    """The columns of a table with their public bounds and categories, in order.

    Args:
        columns: a declaration (`Numeric`, `Categorical`, `Boolean`, `Ignore`, `Person`) for each column name.
        crosses: pairs of columns whose *interaction* a linear model is to see: the effect of one column may then differ
            with the other. It is public knowledge, such as "the effect of a dose depends on age".

    Raises:
        InvalidInput: no columns, something that is not a declaration, more than one `Person`, or a cross of
            columns that are not there.

    Example:
        >>> schema = Schema({"age": Numeric(17, 90), "job": Categorical(["clerk", "nurse"]), "id": Ignore()})
        >>> print(schema.to_yaml())
        age: {numeric: [17, 90]}
        job: {categorical: [clerk, nurse]}
        id: ignore
        <BLANKLINE>
        >>> Schema.from_yaml(schema.to_yaml()) == schema
        True
    """

    def __init__(self, columns: Mapping[str, Column], crosses: Iterable[Sequence[str]] = ()) -> None:
        if not isinstance(columns, Mapping) or not columns:
            file = " Schema.from_yaml reads a file." if isinstance(columns, str | Path) else ""
            raise InvalidInput(f"a schema declares at least one column, got {shortened(columns)}.{file}")
        for name, column in columns.items():
            if not checked_text("a column's name", name):
                raise InvalidInput("a column's name must not be empty.")
            if not isinstance(column, Column):
                raise InvalidInput(
                    f"column {name!r} must be Numeric, Categorical, Boolean, Ignore or Person, got {shortened(column)}."
                )
        several = [name for name, column in columns.items() if isinstance(column, Person)]
        if len(several) > 1:
            raise InvalidInput(f"one column says whose a row is, got {', '.join(map(repr, several))}.")
        self._columns = dict(columns)
        self.crosses = self._checked_crosses(crosses)

    def _checked_crosses(self, crosses: Any) -> tuple[tuple[str, str], ...]:
        """The crosses as pairs of names of used columns, each pair once in any order."""
        if isinstance(crosses, str | Mapping) or not isinstance(crosses, Iterable):
            raise InvalidInput(f"crosses must be a list of pairs of columns, got {shortened(crosses)}.")
        pairs: list[tuple[str, str]] = []
        for cross in crosses:
            if isinstance(cross, str) or not isinstance(cross, Sequence) or len(cross) != 2 or cross[0] == cross[1]:
                raise InvalidInput(f"a cross names two different columns, such as [age, job], got {shortened(cross)}.")
            left, right = (checked_text("a column's name", name) for name in cross)
            for name in (left, right):
                if isinstance(self._columns.get(name, Ignore()), Ignore | Person):
                    raise InvalidInput(f"the cross of {left!r} and {right!r} needs a column {name!r} that is used.")
            if (left, right) in pairs or (right, left) in pairs:
                raise InvalidInput(f"the cross of {left!r} and {right!r} comes more than once.")
            pairs.append((left, right))
        if pairs and _CROSSES in self._columns:
            raise InvalidInput(f"a schema with crosses cannot have a column named {_CROSSES!r}.")
        return tuple(pairs)

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        same_columns = isinstance(other, Schema) and list(self.items()) == list(other.items())
        return same_columns and self.crosses == getattr(other, "crosses", None)

    def __hash__(self) -> int:
        return hash((tuple(self._columns.items()), self.crosses))

    def __repr__(self) -> str:
        crosses = f", crosses={list(self.crosses)!r}" if self.crosses else ""
        return f"Schema({self._columns!r}{crosses})"

    def target(self, name: str) -> Column:
        """The declaration of the column to predict.

        Raises:
            InvalidInput: the schema does not declare it, ignores it, or takes it for people's identity.
        """
        if name not in self._columns:
            raise InvalidInput(f"the schema has no column {name!r}; it has {', '.join(self._columns)}.")
        column = self._columns[name]
        if isinstance(column, Ignore):
            raise InvalidInput(f"column {name!r} is ignored by the schema and cannot be predicted.")
        if isinstance(column, Person):
            raise InvalidInput(f"column {name!r} says whose a row is and cannot be predicted.")
        return column

    @property
    def person(self) -> tuple[str, Person] | None:
        """The column that says whose a row is, by its name and declaration; None where rows are protected."""
        return next(((name, column) for name, column in self.items() if isinstance(column, Person)), None)

    def without(self, name: str) -> Schema:
        """The schema of what is left when a column, such as the target, is taken out."""
        self.target(name)
        if any(name in cross for cross in self.crosses):
            raise InvalidInput(f"column {name!r} is the target and cannot be crossed with another.")
        return Schema({other: column for other, column in self.items() if other != name}, self.crosses)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """The columns whose bounds were taken from the data without protection: no fit with them is private."""
        return tuple(name for name, c in self.items() if isinstance(c, Numeric) and not c.bounds_private)

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain dicts, lists, strings and numbers, in the form of the YAML file."""
        tree = {name: _written(column) for name, column in self.items()}
        return tree | ({_CROSSES: [list(cross) for cross in self.crosses]} if self.crosses else {})

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Schema:
        """Read back what `to_dict` wrote."""
        if not isinstance(tree, Mapping) or not tree:  # what it is is not repeated: it may be a table, given by mistake
            what = "an empty one" if isinstance(tree, Mapping) else f"a {type(tree).__name__}"
            raise InvalidInput(f"a schema is a mapping from column names to declarations, got {what}.\n{_HELP}")
        crosses = tree.get(_CROSSES)
        if not isinstance(crosses, list | tuple):  # a column may have this name; none is declared by a list
            crosses = ()
        columns = {name: _read(name, given) for name, given in tree.items() if name != _CROSSES or given is not crosses}
        return cls(columns, crosses)

    def to_yaml(self) -> str:
        """The schema as YAML, one line a column."""
        return "".join(f"{_one_line(name)}: {_one_line(tree)}\n" for name, tree in self.to_dict().items())

    @classmethod
    def from_yaml(cls, source: str | Path) -> Schema:
        """Read a schema from a YAML file, or from YAML text.

        Text is taken literally: a category written ``no`` is the text "no", not a truth value, and ``007`` is text
        too.

        Args:
            source: a path, or the text itself (which has a colon followed by a space or a line end).

        Raises:
            InvalidInput: the file cannot be read, is not YAML, is too long or too deep, has tags, anchors or aliases,
                or declares something that contradicts itself.
        """
        text = str(source)
        if isinstance(source, Path) or not _looks_like_yaml(text):
            try:
                text = read_bounded(source, _MOST_CHARACTERS).decode("utf-8")
            except (OSError, ValueError) as problem:
                raise InvalidInput(f"cannot read the schema {shortened(str(source))}: {problem}.\n{_HELP}") from None
        if len(text) > _MOST_CHARACTERS:
            raise InvalidInput(f"a schema has at most {_MOST_CHARACTERS} characters, got {len(text)}.")
        try:
            tree = yaml.load(text, Loader=_LiteralLoader)
        except InvalidInput:
            raise
        except (yaml.YAMLError, ValueError, ArithmeticError) as problem:  # the latter by escapes beyond all characters
            raise InvalidInput(f"the schema is not YAML: {_without_text(problem)}.\n{_HELP}") from None
        return cls.from_dict(tree)


def _without_text(problem: Exception) -> str:
    """What is wrong and where, without the text that is wrong: it may be a table, given by mistake."""
    mark = getattr(problem, "problem_mark", None)
    if mark is None:
        return str(problem)
    return f"{getattr(problem, 'problem', '')} (line {mark.line + 1}, column {mark.column + 1})"


_HELP = """A schema looks like this:
age:    {numeric: [17, 90]}
income: {numeric: [0, 500000], scale: log}
job:    {categorical: [clerk, nurse, teacher]}
smoker: boolean
sex:    {boolean: [female, male]}
id:     ignore
person: {unit: 5}
crosses: [[age, smoker]]"""


def schema_template(columns: Sequence[str]) -> str:
    """A schema to fill in: the columns' names, and nothing that was learned from their values.

    Example:
        >>> print(schema_template(["age", "job"]))
        # One line a column; use one of the forms, with PUBLIC knowledge (a codebook), never the data's extremes:
        #   {numeric: [LOW, HIGH]}   {numeric: [0, HIGH], scale: log}   {categorical: [A, B]}   boolean   ignore
        #   {unit: 5} for the column that says whose a row is: people are protected, with up to 5 rows each
        #   {boolean: [NO, YES]} for a target of two labels, as they are in the file
        age: {numeric: [LOW, HIGH]}
        job: {numeric: [LOW, HIGH]}
        <BLANKLINE>
    """
    head = (
        "# One line a column; use one of the forms, with PUBLIC knowledge (a codebook), never the data's extremes:\n"
        "#   {numeric: [LOW, HIGH]}   {numeric: [0, HIGH], scale: log}   {categorical: [A, B]}   boolean   ignore\n"
        "#   {unit: 5} for the column that says whose a row is: people are protected, with up to 5 rows each\n"
        "#   {boolean: [NO, YES]} for a target of two labels, as they are in the file\n"
    )
    return head + "".join(f"{_one_line(str(name))}: {{numeric: [LOW, HIGH]}}\n" for name in columns)


def schema_missing(columns: Sequence[str]) -> InvalidInput:
    """The error for a table without a schema: it shows one to fill in."""
    return InvalidInput(
        "a table needs a schema: the public bounds and categories of its columns, which are never taken from the data. "
        "Nothing was released. Save this as schema.yaml, fill it in, and give it by --schema schema.yaml or "
        "schema=Schema.from_yaml('schema.yaml'):\n" + schema_template(columns)
    )


def _one_line(tree: Any) -> str:
    return yaml.dump(tree, Dumper=_Dumper, default_flow_style=True, sort_keys=False, width=10**9).split("\n")[0]


def _looks_like_yaml(text: str) -> bool:
    return "\n" in text or ": " in text or text.strip().startswith("{")


class _LiteralLoader(yaml.SafeLoader):
    """YAML in which a plain word is text (``no`` is "no"), only numbers are numbers, and no key comes twice.

    A schema needs no tags, anchors or aliases, by which a short text could stand for a huge one, and no deep nesting.
    """

    yaml_implicit_resolvers = {}  # noqa: RUF012 - the attribute by which PyYAML finds them

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None or getattr(event, "tag", None) is not None:
            raise InvalidInput(
                "the schema is not YAML without anchors (&), aliases (*) and tags (!); quote text that begins like one."
            )
        if self._depth >= _MOST_NESTED:
            raise InvalidInput(f"a schema is nested at most {_MOST_NESTED} deep.")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = Counter(str(self.construct_object(key, deep=True)) for key, _ in node.value)
        twice = sorted(key for key, times in keys.items() if times > 1)
        if twice:
            raise InvalidInput(f"the schema names {', '.join(map(repr, twice))} more than once.")
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Quotes all text that `_LiteralLoader`, or any other YAML reader, would take for something else."""


for _handler in (_LiteralLoader, _Dumper):
    _digits, _starts = r"(?:0|[1-9][0-9]*)", list("+-.0123456789")
    _handler.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(f"^[-+]?{_digits}$"), _starts)
    _real = rf"^[-+]?(?:{_digits}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$"
    _handler.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(_real), _starts)


def _written(column: Column) -> Any:
    match column:
        case Numeric(low, high):
            tree: dict[str, Any] = {"numeric": [_short(low), _short(high)]}
        case Categorical(categories):
            tree = {"categorical": list(categories)}
        case Boolean(None, None):
            tree = {"boolean": []}
        case Boolean(false, true):
            tree = {"boolean": [false, true]}
        case Person(most_rows):
            tree = {"unit": most_rows}
        case Ignore():
            return "ignore"
    for field in fields(column):
        value = getattr(column, field.name)
        if field.name not in ("low", "high", "categories", "false", "true", "most_rows") and value != field.default:
            tree[field.name] = _short(value)
    return "boolean" if tree == {"boolean": []} else tree


def _short(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def _read(name: str, declaration: Any) -> Column:
    if isinstance(declaration, str):
        declaration = {declaration: []}
    if not isinstance(declaration, Mapping):
        raise InvalidInput(f"column {name!r} is declared as {shortened(declaration)}.\n{_HELP}")
    kinds = [key for key in declaration if key in _KINDS]
    if len(kinds) != 1:
        raise InvalidInput(
            f"column {name!r} must be one of {', '.join(_KINDS)}, got {shortened(dict(declaration))}.\n{_HELP}"
        )
    kind = _KINDS[kinds[0]]
    options = {key: value for key, value in declaration.items() if key not in _KINDS}
    known = {f.name for f in fields(kind)} - {f.name for f in fields(kind) if f.default is MISSING} - {"false", "true"}
    strangers = sorted(str(key) for key in set(options) - known)
    if strangers:
        raise InvalidInput(
            f"column {name!r}: a {kind.kind} column has no option {', '.join(map(repr, strangers))}; "
            f"it has {', '.join(sorted(known)) or 'none'}."
        )
    try:
        return _construct(
            kind, declaration[kinds[0]], {key: _option(key, value, kind) for key, value in options.items()}
        )
    except InvalidInput as problem:
        raise InvalidInput(f"column {name!r}: {problem}") from None


def _construct(kind: type[Column], values: Any, options: dict[str, Any]) -> Column:
    if kind is Person:
        return Person(values, **options)
    if not isinstance(values, list | tuple):
        raise InvalidInput(f"{kind.kind} takes a list, got {values!r}.")
    if kind is Categorical:
        return Categorical(values, **options)
    if kind is Numeric and len(values) != 2:
        raise InvalidInput(f"numeric takes [low, high], got {list(values)!r}.")
    if kind is Boolean and len(values) not in (0, 2):
        raise InvalidInput(f"boolean takes [no-value, yes-value] or nothing, got {list(values)!r}.")
    if kind is Ignore and values:
        raise InvalidInput(f"ignore takes nothing, got {list(values)!r}.")
    return kind(*values, **options)


def _option(key: str, value: Any, kind: type[Column]) -> Any:
    """Our YAML keeps ``true`` as text; it is a truth value where one is meant."""
    if not isinstance(value, str):
        return value
    truth = key in ("integer", "bounds_private") or (key == "fill" and kind is Boolean)
    if truth and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value
