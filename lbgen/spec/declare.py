"""Declares pydantic models without importing pydantic, whose import takes a fifth of a start.

The modules of models take `Field`, `BaseModel` and the rest from here. A class that is declared so is a plain class,
whose instances pydantic-core makes by a schema (see `validator`); `pydantic_model` gives the model that pydantic makes
of the same declaration: for that schema, for the JSON Schema, and for messages.
"""

from __future__ import annotations

from functools import cache
from inspect import get_annotations
from types import MethodType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import AfterValidator as AfterValidator
    from pydantic import BaseModel as BaseModel
    from pydantic import BeforeValidator as BeforeValidator
    from pydantic import ConfigDict as ConfigDict
    from pydantic import Field as Field
    from pydantic import PlainSerializer as PlainSerializer
    from pydantic import PlainValidator as PlainValidator
    from pydantic import WithJsonSchema as WithJsonSchema
    from pydantic import model_serializer as model_serializer
    from pydantic import model_validator as model_validator
    from pydantic_core import SchemaSerializer

    class _Call:
        def made(self) -> Any: ...  # noqa: ANN401  # what pydantic makes of it

    class _Decorated:
        decorator: _Call
        function: object

    class _Declared(type): ...

else:
    ConfigDict = dict

    class _Call:
        """A call of pydantic that waits until a model needs it."""

        def __init__(self, name: str, args: tuple[object, ...], options: dict[str, object]) -> None:
            self.name, self.args, self.options = name, args, options

        def made(self) -> object:
            import pydantic

            return getattr(pydantic, self.name)(*self.args, **self.options)

    class _Decorated:
        """A function with a decorator of pydantic that waits."""

        def __init__(self, decorator: _Call, function: object) -> None:
            self.decorator, self.function = decorator, function

    def _waiting(name: str) -> Callable[..., _Call]:
        return lambda *args, **options: _Call(name, args, options)

    def _decorator(name: str) -> Callable[..., Callable[[object], _Decorated]]:
        return lambda **options: lambda function: _Decorated(_Call(name, (), options), function)

    Field = _waiting("Field")
    AfterValidator = _waiting("AfterValidator")
    BeforeValidator = _waiting("BeforeValidator")
    PlainValidator = _waiting("PlainValidator")
    PlainSerializer = _waiting("PlainSerializer")
    WithJsonSchema = _waiting("WithJsonSchema")
    model_validator = _decorator("model_validator")
    model_serializer = _decorator("model_serializer")

    class _Declared(type):
        """The class of declared classes: `declaration` is what pydantic gets."""

        def __new__(
            cls, name: str, bases: tuple[type, ...], namespace: dict[str, object], **config: object
        ) -> _Declared:
            plain = {k: v.function if isinstance(v, _Decorated) else v for k, v in namespace.items()}
            made = super().__new__(cls, name, bases, plain)
            annotations = get_annotations(made)  # Python 3.14 has none in the namespace
            for field in annotations.keys() & namespace.keys():
                delattr(made, field)
            made.declaration = (namespace, annotations, config)
            return made

        def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, object], **_: object) -> None:
            super().__init__(name, bases, namespace)

    class BaseModel(metaclass=_Declared):
        """What instances of pydantic's models offer, as far as lbgen uses it; frozen."""

        __slots__ = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")

        @property
        def model_fields_set(self) -> set[str]:
            return self.__pydantic_fields_set__

        @classmethod
        def model_construct(cls, **values: object) -> Self:
            """An instance with these values, unchecked; all fields must be given."""
            return cls.__new__(cls)._filled(values, set(values), None)

        def model_copy(self, *, update: dict[str, object]) -> Self:
            fields_set = self.__pydantic_fields_set__ | update.keys()
            return (
                type(self).__new__(type(self))._filled({**self.__dict__, **update}, fields_set, self.__pydantic_extra__)
            )

        def model_dump(self, **options: object) -> dict[str, Any]:
            """As pydantic's, with its keyword arguments."""
            return _serializer(type(self)).to_python(self, **options)

        def _filled(self, values: dict[str, object], fields_set: set[str], extra: dict[str, object] | None) -> Self:
            for name, value in (
                ("__dict__", values),
                ("__pydantic_fields_set__", fields_set),
                ("__pydantic_extra__", extra),
                ("__pydantic_private__", None),
            ):
                object.__setattr__(self, name, value)
            return self

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{type(self).__name__} is frozen, so {name} cannot be set")

        def __delattr__(self, name: str) -> None:
            raise AttributeError(f"{type(self).__name__} is frozen, so {name} cannot be deleted")

        def __eq__(self, other: object) -> bool:
            if type(self) is not type(other):
                return NotImplemented
            return (self.__dict__, self.__pydantic_extra__) == (other.__dict__, other.__pydantic_extra__)

        def __hash__(self) -> int:
            return hash((type(self), *self.__dict__.values()))

        def __repr__(self) -> str:
            values = {**self.__dict__, **(self.__pydantic_extra__ or {})}
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values.items())})"

        def __getstate__(self) -> tuple[object, ...]:
            return self.__dict__, self.__pydantic_fields_set__, self.__pydantic_extra__

        def __setstate__(self, state: tuple[Any, ...]) -> None:
            self._filled(*state)


_declared_by_model: dict[type, type] = {}


@cache
def pydantic_model(declared: type[BaseModel]) -> type[BaseModel]:
    """The model that pydantic makes of a declared class."""
    import pydantic

    if declared is BaseModel:
        return pydantic.BaseModel
    namespace, annotations, config = declared.declaration  # type: ignore[attr-defined]  # of a declared class
    own = {key: pydantic_type(value) for key, value in namespace.items() if not key.startswith("__annotate")}
    own["__annotations__"] = {name: pydantic_type(annotation) for name, annotation in annotations.items()}
    kind: Any = type(pydantic.BaseModel)
    model: type[BaseModel] = kind(declared.__name__, tuple(map(pydantic_model, declared.__bases__)), own, **config)
    _declared_by_model[model] = declared
    return model


def declared_class(model: object) -> type | None:
    """The declared class of a model that `pydantic_model` has given; None of anything else."""
    return _declared_by_model.get(model) if isinstance(model, type) else None


def core_schema(declared: type[BaseModel]) -> Any:  # noqa: ANN401  # of pydantic-core
    """The schema by which pydantic-core makes instances of a declared class, and writes them."""
    model = pydantic_model(declared)
    model.model_rebuild()
    return _for_declared(model.__pydantic_core_schema__)


@cache
def _serializer(declared: type[BaseModel]) -> SchemaSerializer:
    from pydantic_core import SchemaSerializer

    return SchemaSerializer(core_schema(declared))


def _for_declared(schema: Any) -> Any:  # noqa: ANN401  # a core schema, or a part of it
    """With declared classes, and their methods, in place of pydantic's models; without its notes for JSON Schema."""
    if isinstance(schema, dict):
        noted = isinstance(schema.get("type"), str)  # else fields, by name
        return {key: _for_declared(part) for key, part in schema.items() if not (noted and key == "metadata")}
    if isinstance(schema, list):
        return [_for_declared(part) for part in schema]
    if isinstance(schema, MethodType) and (declared := declared_class(schema.__self__)) is not None:
        return getattr(declared, schema.__name__)
    return declared_class(schema) or schema


def pydantic_type(part: Any) -> Any:  # noqa: ANN401  # annotations have no common type
    """A type or a value of a declaration as pydantic takes it."""
    if isinstance(part, _Call):
        return part.made()
    if isinstance(part, _Decorated):
        return part.decorator.made()(part.function)
    if isinstance(part, _Declared):
        return pydantic_model(part)
    origin, inner = get_origin(part), get_args(part)
    if origin is None or origin is Literal:
        return part
    made = tuple(map(pydantic_type, inner))
    if origin is Annotated:
        return Annotated[made]
    return Union[made] if origin in (Union, UnionType) else origin[made]  # noqa: UP007  # a tuple of members
