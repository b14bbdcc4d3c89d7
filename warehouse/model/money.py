"""Currencies by ISO 4217: which codes exist, and how many decimals their minor unit has."""

from __future__ import annotations

# ISO 4217 list one, active national codes (amendment 176 and before); metals, funds and test codes left out.
_CURRENCIES = frozenset(
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP "
    "CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG "
    "HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL "
    "MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR "
    "RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD "
    "TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG".split()
)
_WITHOUT_DECIMALS = frozenset(
    "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF".split()
)
_THREE_DECIMALS = frozenset("BHD IQD JOD KWD LYD OMR TND".split())


def is_currency(code: str) -> bool:
    """Tells whether this is an active ISO 4217 code, in capitals."""
    return code in _CURRENCIES


def minor_digits(currency: str) -> int:
    """Gives the decimals of the currency's minor unit: 2 for most, 0 or 3 for some."""
    if currency in _WITHOUT_DECIMALS:
        return 0
    return 3 if currency in _THREE_DECIMALS else 2
