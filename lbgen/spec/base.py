"""The base of all models of a topology: strictness, and short forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, ValidationError

from lbgen.spec.value_errors import invalid, wrong_type

Item = TypeVar("Item")


class Strict(BaseModel):
    """Unknown keys are findings, nothing is converted silently, nothing changes after the load."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


def needs_one_of(
    data: object, handler: Callable[[object], Item], *keys: str, none: bool = False, many: bool = False, what: str
) -> Item:
    """Run `handler` on `data`; LB125 as well unless exactly one of `keys` is there.

    With `none` there may be none, with `many` several. For use in a wrap validator, so that this finding comes
    together with those inside the mapping.
    """
    if not isinstance(data, dict):
        return handler(data)
    found = [key for key in keys if key in data]
    if len(found) == 1 or (none and not found) or (many and found):
        return handler(data)
    if found:
        error = invalid("LB125", f"{what} has {' and '.join(found)}", "keep one of them")
    else:
        wanted = "at least one" if many else "exactly one"
        error = invalid("LB125", f"{what} has none of {', '.join(keys[:-1])} or {keys[-1]}", f"write {wanted} of them")
    try:
        handler(data)
    except ValidationError as others:
        raise _joined(error, others, data) from None
    raise error


def _joined(error: PydanticCustomError, others: ValidationError, data: object) -> ValidationError:
    lines = [InitErrorDetails(type=error, loc=(), input=data)]
    for line in others.errors(include_url=False):
        context: dict[str, Any] = line.get("ctx", {})
        kind: str | PydanticCustomError = line["type"]
        if line["type"].startswith("LB"):
            kind = PydanticCustomError(line["type"], "{message}", context)
        lines.append(InitErrorDetails(type=kind, loc=line["loc"], input=line["input"], ctx=context))
    return ValidationError.from_exception_data(others.title, lines)


def _one_as_list(value: object) -> object:
    return [value] if isinstance(value, dict) else value


def _none_as_unset(value: object) -> object:
    return None if value == "none" else value


def _no_case_twins(value: object) -> object:
    """Header names that differ in case only would overwrite each other."""
    if isinstance(value, dict):
        seen: dict[str, str] = {}
        for key in value:
            if isinstance(key, str) and seen.setdefault(key.lower(), key) != key:
                message = f'"{key}" and "{seen[key.lower()]}" name the same header'
                raise invalid("LB102", message, "header names are case-insensitive; write one line", key=key)
    return value


class ShortForm:
    """Says in the JSON Schema of an annotated type that a value may be written short.

    `text`: JSON Schema of the short form; None = one item of the list alone.
    """

    def __init__(self, text: dict[str, Any] | None = None) -> None:
        self.text = text

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        full = handler(core_schema)
        return either_schema(full, self.text if self.text is not None else full["items"])


OneOrMore = Annotated[list[Item], Field(min_length=1), BeforeValidator(_one_as_list), ShortForm()]
no_case_twins = BeforeValidator(_no_case_twins)
# `none` = not what a policy or a default says: the field counts as set, and holds nothing.
OrNone = Annotated[Item | None, BeforeValidator(_none_as_unset), ShortForm({"const": "none"})]


class Inheritable(Strict):
    """Fields that policies or defaults may say as well; `none` is written as it is read."""

    @model_serializer(mode="wrap")
    def _write_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unset = {key: "none" for key in type(self).model_fields if key in self.model_fields_set and _is_none(self, key)}
        return {**handler(self), **unset}


def _is_none(model: BaseModel, key: str) -> bool:
    return getattr(model, key) is None


TEXT, TRUTH = ("text",), ("true", "false")


class OrWord(Strict):
    """A mapping that may also be written as the value of its field `word` alone, and is written so where that is all
    that it says. `choices`: exactly one of these fields is set (LB125); `what` it is in messages."""

    word: ClassVar[str]
    words: ClassVar[tuple[str, ...]]  # the values that are meant so; `TEXT`: any text, `TRUTH`: true and false
    choices: ClassVar[tuple[str, ...]] = ()
    what: ClassVar[str] = ""

    @model_validator(mode="wrap")
    @classmethod
    def _read_word(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, bool if cls.words == TRUTH else str):
            return handler({cls.word: data})
        if not isinstance(data, dict | cls):
            raise wrong_type(f"{', '.join(cls.words)} or a mapping", data)
        return needs_one_of(data, handler, *cls.choices, what=cls.what) if cls.choices else handler(data)

    @model_serializer(mode="wrap")
    def _write_word(self, handler: SerializerFunctionWrapHandler) -> Any:  # noqa: ANN401  # the word or a mapping
        value, others = getattr(self, self.word), type(self).model_fields.keys() - {self.word}
        return handler(self) if value is None or any(getattr(self, key) for key in others) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        kinds = {TEXT: {"type": "string"}, TRUTH: {"type": "boolean"}}
        return either_schema(handler(core_schema), kinds.get(cls.words, {"enum": list(cls.words)}))


def exactly_one(*keys: str) -> ConfigDict:
    """Configuration of a model whose JSON Schema requires exactly one of these keys, as `needs_one_of` does."""
    return ConfigDict(json_schema_extra={"oneOf": [{"required": [key]} for key in keys]})


def at_least_one(*keys: str) -> ConfigDict:
    """Configuration of a model whose JSON Schema requires at least one of these keys."""
    return ConfigDict(json_schema_extra={"anyOf": [{"required": [key]} for key in keys]})


def not_both(one: str, other: str) -> ConfigDict:
    """Configuration of a model whose JSON Schema refuses these two keys together."""
    return ConfigDict(json_schema_extra={"not": {"required": [one, other]}})


def either_schema(schema: dict[str, Any], *short: dict[str, Any]) -> dict[str, Any]:
    """JSON Schema for a mapping that may also be written short."""
    return {"anyOf": [*short, schema]}
