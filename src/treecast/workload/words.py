"""The words for texts and attribute values of generated documents."""

_TEXT = """
after again agency also analysts answer april around asked banks because before border budget business called capital
central change chief city close coast company council country court day deal defence demand early east economy
election energy europe evening export family figures final first foreign fund garden gas goal government group growth
harbour health history home hospital house import industry interest island judge june labour last law leader letter
level light local london long loss market match mayor meeting minister money month morning music nation night north
number office oil old opera order paper paris party people per plan play police port power press price prize profit
public quarter question rail rain rate record report rise river road rule school season second secretary sell senate
share ship shop signal snow south spring state station stock storm street strike summer sunday talks tax team theatre
third time tonight trade train travel treaty trial union value victory village visit vote wage war water week west
wind winter woman work world year young
"""
WORDS = tuple(_TEXT.split())
